package lockjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var update = flag.Bool("update", false, "write the files of testdata")

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// samples have every field, a foreign client, and nothing.
var samples = []driver.LockInfo{
	{
		Key: "group:7", Mode: driver.ModeExclusive,
		Holders: []driver.Holder{{
			Owner: "gateway-1/4242/1/sbqx5o/0123456789abcdef0123456789abcdef", Token: 1763812345678901, Rule: "group-members",
			Trace: traceparent, HeldFor: 1500 * time.Millisecond, Left: 28*time.Second + 500*time.Millisecond + 999*time.Microsecond, Lingers: true,
		}},
		Waiters: []driver.Waiter{
			{Owner: "gateway-2/77/2/sbqx5o/fedcba9876543210fedcba9876543210", Mode: driver.ModeShared, Rule: "<r>", Trace: "x", Waited: 1200 * time.Millisecond},
			{Owner: "gateway-2/77/2/sbqx5o/fedcba9876543210fedcba9876543211", Mode: driver.ModePermit, Permits: 3},
		},
		Record: &driver.RecordInfo{Owner: "gateway-1/4242/1/sbqx5o/0123456789abcdef0123456789abcdee", Size: 12, Trace: traceparent, Left: 24 * time.Hour},
	},
	{Key: "a \"b\" & <c> \u202e\U000e0001ü世", Mode: driver.ModeExclusive, Holders: []driver.Holder{{Owner: "\x1b[31m\u009b31m", Left: -1}}},
	{Key: "foreign", Mode: driver.ModeExclusive, Holders: []driver.Holder{{Owner: "9f2c", Left: 30 * time.Second}}},
	{Key: "done", Mode: driver.ModePermit, Record: &driver.RecordInfo{ResultNotKept: true, Left: time.Second}},
}

func list(infos []driver.LockInfo, err error) iter.Seq2[driver.LockInfo, error] {
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

// The names and units do not change by accident.
func TestGolden(t *testing.T) {
	var array, lines, one bytes.Buffer
	checktest.Must(t, errors.Join(WriteArray(&array, list(samples, nil)), WriteLines(&lines, list(samples, nil)), Write(&one, Of(samples[0]))))
	for file, got := range map[string][]byte{"array.json": array.Bytes(), "lines.jsonl": lines.Bytes(), "one.json": one.Bytes()} {
		file = "testdata/" + file
		if *update {
			checktest.Must(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, %v: got\n%s", file, err, got)
		}
	}
}

// A list that breaks off is no array.
func TestBrokenList(t *testing.T) {
	broken := errors.New("broken")
	for _, infos := range [][]driver.LockInfo{nil, samples} {
		var b bytes.Buffer
		if err := WriteArray(&b, list(infos, broken)); !errors.Is(err, broken) || json.Valid(b.Bytes()) {
			t.Errorf("%v\n%s", err, b.Bytes())
		}
		b.Reset()
		if err := WriteLines(&b, list(infos, broken)); !errors.Is(err, broken) || bytes.Count(b.Bytes(), []byte("\n")) != len(infos) {
			t.Errorf("%v\n%s", err, b.Bytes())
		}
	}
}

func TestTraceID(t *testing.T) {
	for text, want := range map[string]string{
		traceparent:           "4bf92f3577b34da6a3ce929d0e0e4736",
		traceparent + "-more": "4bf92f3577b34da6a3ce929d0e0e4736",
		"":                    "",
		"some trace":          "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01": "",
	} {
		if got := TraceOf(text).TraceID; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
