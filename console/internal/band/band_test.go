package band_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/console/internal/band"
	"github.com/keyturn/keyturn/core/driver"
)

var start = time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func owner(pid int, id string) string {
	return fmt.Sprintf("h/%d/1/t0abcd/%s", pid, strings.Repeat(id, 32))
}

func held(by ...driver.Holder) driver.LockInfo { return driver.LockInfo{Key: "k", Holders: by} }

func lease(owner string, token uint64, since float64) driver.Holder {
	return driver.Holder{Owner: owner, Token: token, HeldFor: seconds(since), Left: time.Second}
}

// text writes spans as "41[0,2] free[2,3]".
func text(spans []band.Span) string {
	var all []string
	for _, s := range spans {
		name := strings.TrimPrefix(s.Process.Label, "h pid ")
		if s.Free {
			name = "free"
		}
		if s.Lingers {
			name += "~"
		}
		all = append(all, fmt.Sprintf("%s[%g,%g]", name, s.From.Sub(start).Seconds(), s.To.Sub(start).Seconds()))
	}
	return strings.Join(all, " ")
}

// sample is what was seen of the key at a moment.
type sample struct {
	at float64
	by []driver.Holder
}

func TestSpans(t *testing.T) {
	t.Parallel()
	foreign := driver.Holder{Owner: "locked", Left: -1}
	lingers := lease(owner(41, "a"), 1, 1)
	lingers.Lingers = true
	by := func(at float64, holders ...driver.Holder) sample { return sample{at, holders} }
	a := func(pid int, id string, token uint64, since float64) driver.Holder {
		return lease(owner(pid, id), token, since)
	}
	for name, tt := range map[string]struct {
		samples []sample
		want    string
	}{
		// The way of the second sample took longer. The store sees one owner for a whole streak of hand-offs.
		"a lease is known from its grant to the last sample": {[]sample{by(10, a(41, "a", 1, 4)), by(11, a(41, "a", 1, 5.003))}, "41[6,11]"},
		"the time between a sample and the next grant is unknown": {
			[]sample{by(0, a(41, "a", 1, 0.5)), by(1, a(42, "b", 7, 0.25))}, "41[-0.5,0] 42[0.75,1]",
		},
		"nobody looked for a minute":                                   {[]sample{by(1, a(42, "b", 7, 0.25)), by(61, a(41, "c", 9, 0.5))}, "42[0.75,1] 41[60.5,61]"},
		"the lease began after the last sample, whatever a clock says": {[]sample{by(1, a(41, "c", 9, 0.5)), by(2, a(42, "d", 11, 5))}, "41[0.5,1] 42[1,2]"},
		"free only between samples that are near": {
			[]sample{by(0), by(1), by(2), by(60), by(61), by(62, a(41, "a", 1, 0.5)), by(63), by(64)}, "free[0,2] free[60,61] 41[61.5,62] free[63,64]",
		},
		"a lease that lingers says so": {[]sample{by(0, lingers)}, "41~[-1,0]"},
		"a foreign value that is used again": {
			[]sample{by(0, foreign), by(1, foreign), by(2, foreign), by(30, foreign), by(31, foreign)},
			`foreign client "locked"[0,2] foreign client "locked"[30,31]`,
		},
		"shared leases overlap": {[]sample{by(0, a(41, "a", 1, 3), a(42, "b", 2, 1))}, "41[-3,0] 42[-1,0]"},
	} {
		b := band.Band{Reach: seconds(2)}
		for _, s := range tt.samples {
			info := held(s.by...)
			if len(s.by) > 1 {
				info.Mode = driver.ModeShared
			}
			b.Add(at(s.at), info)
		}
		if got := text(b.Spans(at(-1000))); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestSpansSinceAMoment(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	b.Add(at(10), held(lease(owner(41, "a"), 1, 4)))
	if got := text(b.Spans(at(8))); got != "41[8,10]" {
		t.Error(got)
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	info := held(lease(owner(41, "a"), 1, 3), lease(owner(42, "b"), 2, 1))
	info.Mode = driver.ModeShared
	b.Add(at(0), info)
	spans := b.Spans(at(-10))
	if lanes, n := band.Lanes(spans, 4); n != 2 || lanes[0] == lanes[1] {
		t.Errorf("%v, %d", lanes, n)
	}
	if lanes, n := band.Lanes(spans, 1); n != 1 || lanes[0]+lanes[1] != 0 {
		t.Errorf("%v, %d", lanes, n)
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	for i := range 500 {
		b.Add(at(float64(i)), held(lease(owner(41, "a"), uint64(i), 0.5)))
	}
	if n := len(b.Spans(at(-10))); n == 0 || n > 100 {
		t.Errorf("%d spans", n)
	}
}
