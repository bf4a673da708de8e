package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/core/observe"
)

// telling is a spy whose messages to the engine a test can send, or hold back.
type telling struct {
	*spy
	tell func(key, owner string)
	deaf bool
	wall core.Wall
}

func newTelling() *telling { return &telling{spy: newSpy()} }

func (s *telling) Describe() driver.Description {
	d := s.spy.Describe()
	d.OnWanted = func(f func(key, owner string)) {
		s.tell = f
		s.spy.Describe().OnWanted(func(key, owner string) {
			if !s.deaf {
				f(key, owner)
			}
		})
	}
	return d
}

// lingers checks whether the engine keeps the lease on key, and that a fail-fast caller of another
// process is refused meanwhile. It does not make the engine give the lease up.
func lingers(t *testing.T, s *telling, key string, want bool) {
	t.Helper()
	info, err := s.Inspect(bg, key)
	must(t, err)
	is := len(info.Holders) == 1 && info.Holders[0].Lingers
	check(t, is == want, "%s is shown as %+v, lingers: want %t", key, info.Holders, want)
}

// sticky uses a lease for a moment. The clock goes on before that: tokens must not outrun it.
func sticky(t *testing.T, eng *core.Engine, key string, opts ...core.CallOption) *core.Lease {
	t.Helper()
	time.Sleep(time.Millisecond)
	l := mustAcquire(t, eng, key, opts...)
	mustRelease(t, l)
	return l
}

// The next caller of the process has the lease at once: the store is asked once, and released once.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Second))
		first := sticky(t, eng, "k")
		for i := range 5 {
			time.Sleep(900 * time.Millisecond)
			l := sticky(t, eng, "k")
			check(t, l.Token() == first.Token()+uint64(i)+1 && l.Owner() == first.Owner() && core.Observed(l).HandedOff() && core.Observed(l).Lingered(), "%+v after %+v", l, first)
		}
		check(t, s.requests() == 1 && s.releases() == 0, "the store was asked %d times, released %d times", s.requests(), s.releases())
		lingers(t, s, "k", true)
		time.Sleep(1100 * time.Millisecond)
		lingers(t, s, "k", false)
		wantEqual(t, "releases", s.releases(), 1)
		wantNothingLeft(t, eng)
		if l := sticky(t, eng, "k"); l.Token() <= first.Token()+5 || l.Owner() == first.Owner() {
			t.Errorf("the next grant has token %d after %d", l.Token(), first.Token()+5)
		}
	})
}

// A lease is handed on once, however many are nested in it or borrow it.
func TestNestedLeaseIsNotHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Second))
		acquire := func(ctx context.Context, eng *core.Engine, handedOff bool, keys ...string) *core.Lease {
			time.Sleep(time.Millisecond) // as in sticky
			l, err := eng.AcquireAll(ctx, exclusive(keys...))
			must(t, err)
			o := core.Observed(l)
			check(t, o.HandedOff() == handedOff && o.Lingered() == handedOff, "%q: handed off %t, lingered %t, want %t", keys, o.HandedOff(), o.Lingered(), handedOff)
			return l
		}
		sticky(t, eng, "k")
		l := acquire(bg, eng, true, "k")
		mustRelease(t, acquire(l.Context(), eng, false, "k"))
		mustRelease(t, acquire(carry.Accept(bg, carry.Leases(l.Context())), newEngine(t, s.Peer()), false, "k"))
		mustRelease(t, l)
		sticky(t, eng, "k")
		l = mustAcquire(t, eng, "a")
		mustRelease(t, acquire(l.Context(), eng, true, "a", "k"))
		mustRelease(t, l)
	})
}

// What another process may work under, or was changed, or has been waited for, does not linger.
func TestLingersNot(t *testing.T) {
	for name, use := range map[string]func(*testing.T, *core.Engine){
		"shared":  func(t *testing.T, e *core.Engine) { sticky(t, e, "k", core.WithShared()) },
		"permit":  func(t *testing.T, e *core.Engine) { sticky(t, e, "k", core.WithPermits(3)) },
		"minimum": func(t *testing.T, e *core.Engine) { sticky(t, e, "k", core.WithMinHold(time.Millisecond)) },
		"set":     func(t *testing.T, e *core.Engine) { mustRelease(t, acquireAll(t, e, exclusive("j", "k")...)) },
		"once": func(t *testing.T, e *core.Engine) {
			if _, err := e.Once(bg, "k", func(context.Context) ([]byte, error) { return nil, errDown }); !errors.Is(err, errDown) {
				t.Error(err)
			}
		},
		"extended": func(t *testing.T, e *core.Engine) {
			l := mustAcquire(t, e, "k")
			wantNil(t, l.Extend(bg, time.Minute))
			mustRelease(t, l)
		},
		"downgraded": func(t *testing.T, e *core.Engine) {
			l := mustAcquire(t, e, "k")
			wantNil(t, l.Downgrade(bg))
			mustRelease(t, l)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTelling()
			use(t, newEngine(t, s, core.WithLinger(time.Hour)))
			time.Sleep(time.Second)
			lingers(t, s, "k", false)
			isFree(t, newEngine(t, s.Peer()), "k")
		})
	}
}

// A grant behind which others wait at the store goes back, and the callers of this process that
// wait in line are handed the lease before it lingers.
func TestLingerBehindTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		here := newEngine(t, s, core.WithLinger(time.Hour))
		c := &crowd{t: t}
		first := mustAcquire(t, here, "k")
		for i := range 3 {
			c.join(here, fmt.Sprint(i), time.Millisecond)
		}
		mustRelease(t, first)
		c.all.Wait()
		check(t, s.requests() == 1 && slices.Equal(c.order, c.names(3)), "asked %d times, served in the order %v", s.requests(), c.order)
		lingers(t, s, "k", true)

		inside, err := here.TryAcquire(bg, "k") // a lease that is not handed on
		must(t, err)
		s.deaf = true // the line is enough to know that somebody waits
		c.join(here, "3", 0)
		began := time.Now()
		mustRelease(t, inside)
		c.all.Wait()
		wantTook(t, began, 0) // the lease is of its own process
		s.deaf = false
		want := append(c.names(3), "3")
		check(t, slices.Equal(c.order, want), "served in the order %v, want %v", c.order, want)
	})
}

// A caller that has gone by the time that it has taken the lease leaves it to others.
func TestLingerTakenByACallerThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		ctx, cancel := context.WithCancel(bg)
		eng := newEngine(t, s, core.WithLinger(time.Hour), core.WithHooks(observe.Hooks{Lingered: func(l observe.Linger) {
			if l.State == observe.LingerTaken {
				cancel()
			}
		}}))
		sticky(t, eng, "k")
		_, err := eng.Acquire(ctx, "k")
		check(t, errors.Is(err, context.Canceled), "%v", err)
		synctest.Wait()
		isFree(t, newEngine(t, s.Peer()), "k")
	})
}

func TestLingerNeedsAStoreThatTells(t *testing.T) {
	mute := described{newSpy(), func(d *driver.Description) { d.OnWanted = nil }}
	wantOnly(t, errOf(core.New(mute, core.WithLinger(time.Second))), errors.ErrUnsupported)
	eng := newEngine(t, mute)
	for _, opt := range []core.CallOption{core.WithLinger(time.Second), policy(t, core.WithLinger(time.Second))} {
		wantOnly(t, errOf(eng.Acquire(bg, "k", opt)), errors.ErrUnsupported)
	}
	sticky(t, eng, "k", core.WithLinger(0))
}

// What lingers is bounded, and what is owed counts.
func TestLingeringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Minute), core.WithMaxLingering(2), core.WithCircuit(core.Forever))
		for _, key := range []string{"a", "b", "c"} {
			sticky(t, eng, key)
			lingers(t, s, key, key != "c")
		}
		time.Sleep(time.Minute)
		sticky(t, eng, "c")
		lingers(t, s, "c", true)

		s.change(func() { s.onRelease = func(context.Context, driver.Grant) error { return errDown } })
		for _, key := range []string{"d", "e"} {
			l := mustAcquire(t, eng, key, core.WithLinger(0))
			wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		}
		l := mustAcquire(t, eng, "f")
		wantOnly(t, l.Release(bg), core.ErrOutcomeUnknown, core.ErrUnavailable)
		s.mend()
	})
	wantOnly(t, errOf(core.New(newTelling(), core.WithMaxLingering(0))), core.ErrInvalidOption)
}
