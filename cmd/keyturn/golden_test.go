package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var update = flag.Bool("update", false, "write the files of testdata")

// samples are what a store may say: holders of each mode, waiters, records, foreign and hostile text.
var samples = []driver.LockInfo{
	{
		Key: "group:7", Mode: driver.ModeExclusive,
		Holders: []driver.Holder{{
			Owner: "gateway-1/4242/1/sbqx5o/0123456789abcdef0123456789abcdef", Token: 1763812345678901, Rule: "group-members",
			Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", HeldFor: 125 * time.Second, Left: 28500 * time.Millisecond, Lingers: true,
		}},
		Waiters: []driver.Waiter{
			{Owner: "gateway-2/77/2/sbqx5o/fedcba9876543210fedcba9876543210", Mode: driver.ModeShared, Rule: "read", Waited: 1200 * time.Millisecond},
			{Owner: "gateway-2/77/2/sbqx5o/fedcba9876543210fedcba9876543211", Mode: driver.ModePermit, Permits: 3, Waited: 150 * time.Millisecond},
		},
	},
	{
		Key: "report", Mode: driver.ModeShared,
		Holders: []driver.Holder{
			{Owner: "gateway-1/4242/1/sbqx5o/0123456789abcdef0123456789abcde1", Token: 5, HeldFor: 26 * time.Hour, Left: 3 * time.Hour},
			{Owner: "gateway-1/4243/1/sbqx5o/0123456789abcdef0123456789abcde2", Token: 6, HeldFor: 9 * time.Second, Left: 900 * time.Millisecond},
		},
	},
	{Key: "payment:世界", Record: &driver.RecordInfo{Owner: "gateway-1/4242/1/sbqx5o/0123456789abcdef0123456789abcde3", Size: 512, Left: 24 * time.Hour}},
	{Key: "big", Record: &driver.RecordInfo{ResultNotKept: true, Left: time.Minute}},
	{Key: "a\u202eb", Mode: driver.ModeExclusive, Holders: []driver.Holder{{Owner: "some\x1b[31m uuid", Left: -1}}},
	{Key: "foreign", Mode: driver.ModeExclusive, Holders: []driver.Holder{{Owner: "9f2c", Left: 30 * time.Second}}}, // it does not say since when
}

func seq(infos []driver.LockInfo, err error) iter.Seq2[driver.LockInfo, error] {
	return func(yield func(driver.LockInfo, error) bool) {
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.LockInfo{}, err)
		}
	}
}

// golden compares what write writes with a file.
func golden(t *testing.T, file string, a *app, write func(*app) error) {
	t.Helper()
	var b bytes.Buffer
	a.stdout = &b
	if err := write(a); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	file = "testdata/" + file
	if *update {
		must(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	check(t, err == nil && bytes.Equal(b.Bytes(), want), "%s, %v: got\n%s", file, err, b.Bytes())
}

// Names, order and units of every output do not change by accident.
func TestGoldenList(t *testing.T) {
	for file, a := range map[string]*app{
		"ls.tsv": {}, "ls-plain.tsv": {noHeaders: true}, "ls-wide.tsv": {output: "wide"},
		"ls.json": {output: "json"}, "ls.jsonl": {output: "jsonl"},
	} {
		golden(t, file, a, func(a *app) error { return a.list(seq(samples, nil)) })
	}
	golden(t, "ls-none.tsv", &app{}, func(a *app) error { return a.list(seq(nil, nil)) })
	golden(t, "ls-none.json", &app{output: "json"}, func(a *app) error { return a.list(seq(nil, nil)) })
}

func TestGoldenShow(t *testing.T) {
	for file, a := range map[string]*app{"show.tsv": {}, "show.json": {output: "json"}, "show.jsonl": {output: "jsonl"}} {
		golden(t, file, a, func(a *app) error { return a.show(samples[0]) })
	}
	golden(t, "show-record.tsv", &app{}, func(a *app) error { return errors.Join(a.show(samples[2]), a.show(samples[3])) })
}

// A list that breaks off is an error, after what has come.
func TestListBreaksOff(t *testing.T) {
	broken := errors.New("broken")
	for _, output := range []string{"", "json", "jsonl"} {
		var b bytes.Buffer
		err := (&app{stdout: &b, output: output}).list(seq(samples[:1], broken))
		check(t, errors.Is(err, broken) && b.Len() != 0, "%s: %v, %q", output, err, b.String())
	}
}

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		filter
		want int // a bit for each sample
	}{
		"none is set":      {filter{}, 0b110011},
		"all":              {filter{held: true, waiting: true, records: true}, 0b111111},
		"held":             {filter{held: true}, 0b110011},
		"waiting":          {filter{waiting: true}, 0b00001},
		"records":          {filter{records: true}, 0b01100},
		"held or record":   {filter{held: true, records: true}, 0b111111},
		"longer":           {filter{longerThan: 3 * time.Minute}, 0b00010},
		"rule of a waiter": {filter{rule: "read"}, 0b00001},
		"host":             {filter{host: "gateway-1"}, 0b00011},
		"host of a waiter": {filter{host: "gateway-2"}, 0b00001},
		"both":             {filter{host: "gateway-1", rule: "group-members"}, 0b00001},
		"none":             {filter{host: "gateway-3"}, 0},
	} {
		for i, info := range samples {
			if got := c.passes(info); got != (c.want&(1<<i) != 0) {
				t.Errorf("%s: %s: %v", name, info.Key, got)
			}
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "?", 0: "0ms", 999*time.Millisecond + 999*time.Microsecond: "999ms", 1500 * time.Millisecond: "1.5s", 9999 * time.Millisecond: "9.9s",
		59 * time.Second: "59s", 125 * time.Second: "2m05s", 3*time.Hour + 12*time.Minute: "3h12m", 98 * time.Hour: "4d02h",
	} {
		got := age(d)
		check(t, got == want, "%v: %s, want %s", d, got, want)
	}
}

// deadlock is two processes that wait for each other, and one behind them.
func deadlock() []driver.LockInfo {
	const a, b, c = "host-a/1/1/sbqx5o/0123456789abcdef0123456789abcde1", "host-b/2/1/sbqx5o/0123456789abcdef0123456789abcde2", "host-0/3/1/sbqx5o/0123456789abcdef0123456789abcde3"
	held := func(owner string) []driver.Holder {
		return []driver.Holder{{Owner: owner, Token: 7, Rule: "r", HeldFor: time.Minute, Left: time.Second}}
	}
	return []driver.LockInfo{
		{Key: "x", Holders: held(a), Waiters: []driver.Waiter{{Owner: b, Waited: 2 * time.Second, Rule: "w"}, {Owner: c, Waited: time.Second}}},
		{Key: "y", Holders: held(b), Waiters: []driver.Waiter{{Owner: a, Waited: 3 * time.Second}}},
		{Key: "z", Holders: held(c)},
	}
}

// circles has a deadlock of requests, and processes that wait for each other without a trace.
func circles() []driver.LockInfo {
	const c, d = "host-0/3/1/sbqx5o/0123456789abcdef0123456789abcde4", "host-1/4/1/sbqx5o/0123456789abcdef0123456789abcde5"
	all := deadlock()
	all[0].Holders[0].Trace, all[1].Waiters[0].Trace = traceparent(1), traceparent(1)
	all[1].Holders[0].Trace, all[0].Waiters[0].Trace = traceparent(2), traceparent(2)
	return append(all,
		driver.LockInfo{Key: "v", Holders: []driver.Holder{{Owner: c, Token: 8}}, Waiters: []driver.Waiter{{Owner: d, Waited: 6 * time.Second}}},
		driver.LockInfo{Key: "w", Holders: []driver.Holder{{Owner: d, Token: 9}}, Waiters: []driver.Waiter{{Owner: c, Waited: 7 * time.Second}}},
	)
}

func traceparent(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }

func TestGoldenWho(t *testing.T) {
	for file, a := range map[string]*app{"who.tsv": {}, "who.json": {output: "json"}, "who.jsonl": {output: "jsonl"}} {
		golden(t, file, a, func(a *app) error { return a.who(seq(append(circles(), samples[4]), nil)) })
	}
	golden(t, "ls-none.json", &app{output: "json"}, func(a *app) error { return a.who(seq(nil, nil)) }) // it was null
}

// watch has a line for each thing that has changed, and none for a renewal.
func TestWatchCompares(t *testing.T) {
	all := deadlock()
	look := func(infos ...driver.LockInfo) map[string]driver.LockInfo {
		m := make(map[string]driver.LockInfo)
		for _, info := range infos {
			m[info.Key] = info
		}
		return m
	}
	renewed := all[2]
	renewed.Holders = []driver.Holder{renewed.Holders[0]}
	renewed.Holders[0].Left, renewed.Holders[0].HeldFor = time.Hour, time.Hour
	taken := driver.LockInfo{Key: "z", Holders: all[0].Holders, Waiters: all[0].Waiters[:1]}
	for name, c := range map[string]struct {
		before, now map[string]driver.LockInfo
		want        string
	}{
		"nothing":         {look(all...), look(all...), ""},
		"renewed":         {look(all[2]), look(renewed), ""},
		"held":            {look(), look(all[2]), "held z host-0/3;"},
		"released":        {look(all[2]), look(), "ended z host-0/3;"},
		"taken":           {look(all[2]), look(taken), "ended z host-0/3;held z host-a/1;waiters z host-b/2;"},
		"first look":      {look(), look(all[0], all[1]), "held x host-a/1;waiters x host-0/3;held y host-b/2;waiters y host-a/1;"},
		"without records": {look(samples[2]), look(all[2]), "held z host-0/3;"},
		"recorded":        {look(), look(samples[2]), "recorded payment:世界 gateway-1/4242;"},
		"forgotten":       {look(samples[2]), look(), "forgotten payment:世界 gateway-1/4242;"},
	} {
		got := ""
		for _, change := range compare(c.before, c.now, !strings.HasPrefix(name, "without")) {
			got += change.Change + " " + change.Key + " " + change.Process + ";"
		}
		check(t, got == c.want, "%s: %s, want %s", name, got, c.want)
	}
}

func TestGoldenDoctor(t *testing.T) {
	findings := []driver.Finding{
		{About: "store", Found: "redis://localhost"},
		{About: "appendonly", Found: "no", Risk: "a restart frees every lock", Advice: "set it to yes"},
		{About: "appendfsync"},
		{About: "server", Risk: "no answer", Advice: "start it"},
	}
	for file, a := range map[string]*app{"doctor.tsv": {}, "doctor.json": {output: "json"}, "doctor.jsonl": {output: "jsonl"}} {
		golden(t, file, a, func(a *app) error {
			if err := a.report(findings); statusOf(err) != 1 {
				return err
			}
			return a.report(nil)
		})
	}
}
