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

func want(t *testing.T, b *band.Band, want string) {
	t.Helper()
	if got := text(b.Spans(at(-1000))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestALeaseIsKnownFromItsGrantToTheLastSample(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	b.Add(at(10), held(lease(owner(41, "a"), 1, 4)))
	b.Add(at(11), held(lease(owner(41, "a"), 1, 5.003))) // the way took longer
	want(t, &b, "41[6,11]")
	if got := text(b.Spans(at(8))); got != "41[8,11]" {
		t.Error(got)
	}
}

func TestTheTimeBetweenASampleAndTheNextGrantIsUnknown(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	b.Add(at(0), held(lease(owner(41, "a"), 1, 0.5)))
	b.Add(at(1), held(lease(owner(42, "b"), 7, 0.25)))
	want(t, &b, "41[-0.5,0] 42[0.75,1]")
	// Nobody looked for a minute. The lease began after the last sample, whatever a clock says.
	b.Add(at(61), held(lease(owner(41, "c"), 9, 0.5)))
	b.Add(at(62), held(lease(owner(42, "d"), 11, 5)))
	want(t, &b, "41[-0.5,0] 42[0.75,1] 41[60.5,61] 42[61,62]")
}

func TestFreeOnlyBetweenSamplesThatAreNear(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	for _, s := range []float64{0, 1, 2, 60, 61} {
		b.Add(at(s), held())
	}
	b.Add(at(62), held(lease(owner(41, "a"), 1, 0.5)))
	b.Add(at(63), held())
	b.Add(at(64), held())
	want(t, &b, "free[0,2] free[60,61] 41[61.5,62] free[63,64]")
}

// The store sees one owner for a whole streak of hand-offs, so the band is the process's.
func TestAStreakIsItsProcesss(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	b.Add(at(0), held(lease(owner(41, "a"), 100, 0.1)))
	b.Add(at(1), held(lease(owner(41, "a"), 100, 1.1)))
	spans := b.Spans(at(-10))
	want(t, &b, "41[-0.1,1]")
	if spans[0].Process.Label != "h pid 41" {
		t.Errorf("%+v", spans)
	}
}

func TestALeaseThatLingersSaysSo(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	h := lease(owner(41, "a"), 1, 1)
	h.Lingers = true
	b.Add(at(0), held(h))
	want(t, &b, "41~[-1,0]")
}

func TestAForeignValueThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	foreign := driver.Holder{Owner: "locked", Left: -1}
	for _, s := range []float64{0, 1, 2, 30, 31} {
		b.Add(at(s), held(foreign))
	}
	want(t, &b, `foreign client "locked"[0,2] foreign client "locked"[30,31]`)
}

func TestSharedLeasesOverlap(t *testing.T) {
	t.Parallel()
	b := band.Band{Reach: seconds(2)}
	info := held(lease(owner(41, "a"), 1, 3), lease(owner(42, "b"), 2, 1))
	info.Mode = driver.ModeShared
	b.Add(at(0), info)
	want(t, &b, "41[-3,0] 42[-1,0]")
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
