package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// telling is a spy whose messages to the engine a test can send, or hold back.
type telling struct {
	*spy
	tell  func(key, owner string)
	deaf  bool
	asked int
}

func newTelling() *telling {
	s := &telling{spy: newSpy()}
	s.onAcquire = func(context.Context, driver.Request) error { s.asked++; return nil }
	return s
}

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

func (s *telling) releases() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.released)
}

// lingers checks whether the engine keeps the lease on key, and that a fail-fast caller of another
// process is refused meanwhile. It does not make the engine give the lease up.
func lingers(t *testing.T, s *telling, key string, want bool) {
	t.Helper()
	info, err := s.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if is := len(info.Holders) == 1 && info.Holders[0].Lingers; is != want {
		t.Errorf("%s is shown as %+v, lingers: want %t", key, info.Holders, want)
	}
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
			if l.Token() != first.Token()+uint64(i)+1 || l.Owner() != first.Owner() || !core.Observed(l).HandedOff() || !core.Observed(l).Lingered() {
				t.Errorf("token %d, owner %s, handed off %t after %d of %s", l.Token(), l.Owner(), core.Observed(l).HandedOff(), first.Token(), first.Owner())
			}
		}
		if s.asked != 1 || s.releases() != 0 {
			t.Errorf("the store was asked %d times, released %d times", s.asked, s.releases())
		}
		lingers(t, s, "k", true)
		time.Sleep(1100 * time.Millisecond)
		lingers(t, s, "k", false)
		if s.releases() != 1 {
			t.Errorf("the store was released %d times", s.releases())
		}
		if left := eng.Left(); left != "" {
			t.Error(left)
		}
		if l := sticky(t, eng, "k"); l.Token() <= first.Token()+5 || l.Owner() == first.Owner() {
			t.Errorf("the next grant has token %d after %d", l.Token(), first.Token()+5)
		}
	})
}

func TestLingerIsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		sticky(t, newEngine(t, s), "k")
		isFree(t, newEngine(t, s.Peer()), "k")
		eng := newEngine(t, s, core.WithLinger(time.Second))
		sticky(t, eng, "k", core.WithLinger(0))
		lingers(t, s, "k", false)
		sticky(t, eng, "k")
		lingers(t, s, "k", true)
	})
}

// A lease that lingers goes to whoever wants it, in whatever way, without a wait.
func TestLingerGivesWay(t *testing.T) {
	ctx := context.Background()
	for name, take := range map[string]func(*core.Engine) (*core.Lease, error){
		"exclusive": func(e *core.Engine) (*core.Lease, error) { return e.Acquire(ctx, "k") },
		"shared":    func(e *core.Engine) (*core.Lease, error) { return e.Acquire(ctx, "k", core.WithShared()) },
		"a permit":  func(e *core.Engine) (*core.Lease, error) { return e.Acquire(ctx, "k", core.WithPermits(2)) },
		"a set":     func(e *core.Engine) (*core.Lease, error) { return e.AcquireAll(ctx, exclusive("a", "k")) },
		"another TTL": func(e *core.Engine) (*core.Lease, error) {
			return e.Acquire(ctx, "k", core.WithTTL(time.Minute))
		},
		"a second try": func(e *core.Engine) (*core.Lease, error) {
			if l, err := e.TryAcquire(ctx, "k"); !errors.Is(err, core.ErrHeld) {
				return l, err
			}
			synctest.Wait()
			return e.TryAcquire(ctx, "k")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTelling()
				here := newEngine(t, s, core.WithLinger(time.Minute))
				for _, who := range []*core.Engine{newEngine(t, s.Peer()), here} {
					last := sticky(t, here, "k")
					lingers(t, s, "k", true)
					began := time.Now()
					l, err := take(who)
					if err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(began); waited > 0 || l.Token() <= last.Token() {
						t.Errorf("waited %v, token %d after %d", waited, l.Token(), last.Token())
					}
					mustRelease(t, l)
					time.Sleep(2 * time.Minute)
				}
			})
		})
	}
}

// A caller that does not wait is refused by another process, never by a lease of its own that
// nobody uses.
func TestLingerRefusesOtherProcessesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), newTelling()
		here, there := newEngine(t, s, core.WithLinger(time.Minute)), newEngine(t, s.Peer())
		sticky(t, here, "k")
		_, err := there.TryAcquire(ctx, "k")
		wantOnly(t, err, core.ErrHeld)
		var held *core.HeldError
		if errors.As(err, &held); held.HeldFor != 0 {
			t.Errorf("held for %v, though nobody knows", held.HeldFor)
		}
		synctest.Wait()
		isFree(t, there, "k")

		sticky(t, here, "k")
		for _, opts := range [][]core.CallOption{nil, {core.WithShared()}, {core.WithTTL(time.Minute)}} {
			l, err := here.TryAcquire(ctx, "k", opts...)
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, l)
		}
		if _, err := here.Once(ctx, "k", func(context.Context) ([]byte, error) { return nil, nil }, core.WithFailFast()); err != nil {
			t.Error(err)
		}
	})
}

// While somebody works under the lease, the others wait for that work, and for no longer.
func TestLingerEndsWithTheSection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		here, there := newEngine(t, s, core.WithLinger(time.Minute)), newEngine(t, s.Peer())
		sticky(t, here, "k")
		inside := mustAcquire(t, here, "k")
		if _, err := there.TryAcquire(context.Background(), "k"); !errors.Is(err, core.ErrHeld) {
			t.Errorf("beside a holder: %v", err)
		}
		mustRelease(t, inside)
		isFree(t, there, "k")

		inside = mustAcquire(t, here, "k")
		c := &crowd{t: t}
		c.join(there, "there", 0)
		mustRelease(t, inside)
		c.all.Wait()
		if len(c.leases) != 1 || c.leases[0].Token() <= inside.Token() {
			t.Errorf("%d leases after token %d: %v", len(c.leases), inside.Token(), c.leases)
		}
	})
}

// A message that comes before the grant is not lost.
func TestLingerWantedBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Minute))
		s.onAcquire = func(_ context.Context, req driver.Request) error {
			s.tell("k", req.Owner)
			return nil
		}
		sticky(t, eng, "k")
		lingers(t, s, "k", false)
		s.onAcquire = func(_ context.Context, req driver.Request) error {
			s.tell("", "")
			return nil
		}
		sticky(t, eng, "k")
		lingers(t, s, "k", false)
		s.onAcquire = nil
		sticky(t, eng, "k")
		lingers(t, s, "k", true)
	})
}

// A client that cannot tell anybody that it waits waits for the time that the lease may linger, or,
// if the lease is used again and again, for ten times that.
func TestLingerIsBounded(t *testing.T) {
	const linger = 2 * time.Second
	for name, tc := range map[string]struct {
		pause time.Duration // between two uses; 0: none
		most  time.Duration
	}{
		"unused": {0, linger}, "used": {time.Second, 10*linger + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTelling()
				s.deaf = true
				here, there := newEngine(t, s, core.WithLinger(linger)), newEngine(t, s.Peer())
				sticky(t, here, "k")
				began, ctx := time.Now(), context.Background()
				got := make(chan struct{})
				go func() {
					defer close(got)
					mustRelease(t, mustAcquire(t, there, "k", core.WithMaxWait(time.Minute)))
				}()
				for tc.pause > 0 && ctx.Err() == nil {
					select {
					case <-got:
					case <-time.After(tc.pause):
						sticky(t, here, "k")
						continue
					}
					break
				}
				<-got
				if waited := time.Since(began); waited > tc.most+time.Millisecond {
					t.Errorf("waited %v, want %v at most", waited, tc.most)
				}
			})
		})
	}
}

// When messages may have been missed, all that lingers goes back, and what is in use does not stay.
func TestLingerEndsWhenTheStoreIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Hour))
		const many = 3000
		for i := range many {
			sticky(t, eng, fmt.Sprint(i))
		}
		time.Sleep(time.Millisecond)
		inside := mustAcquire(t, eng, "k")
		s.tell("", "")
		if l := sticky(t, eng, "7"); core.Observed(l).HandedOff() {
			t.Error("a lease was taken of which nobody would have heard that it is wanted")
		}
		synctest.Wait()
		if n := s.releases(); n != many {
			t.Errorf("%d of %d leases went back", n, many)
		}
		mustRelease(t, inside)
		lingers(t, s, "k", false)
		lingers(t, s, "7", true) // it was asked for after that
	})
}

// A lease whose tokens are used up goes back, and the next caller asks for more.
func TestLingerNeedsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, few{s, 2}, core.WithLinger(time.Hour))
		last := uint64(0)
		for i := range 9 {
			if l := sticky(t, eng, "k"); l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			} else {
				last = l.Token()
			}
			if want := 1 + i/3; s.asked != want {
				t.Errorf("after %d leases the store was asked %d times, want %d", i+1, s.asked, want)
			}
		}
	})
}

// few reserves few tokens.
type few struct {
	*telling
	n uint64
}

func (s few) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	req.HandOffs = min(req.HandOffs, s.n)
	return s.telling.Acquire(ctx, req)
}

// A lease that lingers is renewed, and ends like any other if it is lost.
func TestLingerAndLoss(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		lose func(t *testing.T, s *telling, l *core.Lease)
		wait time.Duration // until the engine must know
		end  observe.LingerState
	}{
		"nothing happens": {func(*testing.T, *telling, *core.Lease) {}, time.Minute, ""},
		"forced by another process": {func(t *testing.T, s *telling, _ *core.Lease) {
			if _, err := newEngine(t, s.Peer()).ForceRelease(ctx, "k", "a test"); err != nil {
				t.Fatal(err)
			}
		}, 0, observe.LingerWanted},
		"gone at the store": {func(t *testing.T, s *telling, l *core.Lease) {
			breakLock(t, s.spy, l)
		}, 11 * time.Second, observe.LingerLost},
		"the store is silent": {func(_ *testing.T, s *telling, _ *core.Lease) {
			s.change(func() { s.onRenew = func(context.Context, driver.Grant) error { return errDown } })
		}, 31 * time.Second, observe.LingerLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := newTelling(), &recorder{}
				eng := newEngine(t, s, core.WithLinger(time.Hour), core.WithHooks(observe.Hooks{
					Lingered: func(l observe.Linger) { log.note(string(l.State)) },
				}))
				last := sticky(t, eng, "k")
				tc.lose(t, s, last)
				synctest.Wait()
				time.Sleep(tc.wait)
				synctest.Wait()
				want := []string{string(observe.LingerBegun)}
				if tc.end != "" {
					want = append(want, string(tc.end))
				}
				if !slices.Equal(log.events, want) {
					t.Errorf("seen %q, want %q", log.events, want)
				}
				s.change(func() { s.onRenew = nil })
				l := sticky(t, eng, "k")
				if taken := core.Observed(l).HandedOff(); taken != (tc.end == "") || l.Token() <= last.Token() || l.Err() == nil {
					t.Errorf("taken: %t, token %d after %d", taken, l.Token(), last.Token())
				}
			})
		})
	}
}

// The engine's own ForceRelease ends what lingers here.
func TestLingerForcedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		s.deaf = true
		eng := newEngine(t, s, core.WithLinger(time.Hour))
		last := sticky(t, eng, "k")
		info, err := eng.Inspect(context.Background(), "k")
		if err != nil || len(info.Holders) != 1 || !info.Holders[0].Lingers {
			t.Errorf("shown as %+v, %v", info, err)
		}
		if _, err := eng.ForceRelease(context.Background(), "k", "a test", info.Holders...); err != nil {
			t.Fatal(err)
		}
		if l := sticky(t, eng, "k"); l.Owner() == last.Owner() || l.Token() <= last.Token() {
			t.Errorf("token %d of %s after %d of %s", l.Token(), l.Owner(), last.Token(), last.Owner())
		}
	})
}

// Close gives back what lingers, also if nobody answers.
func TestLingerAndClose(t *testing.T) {
	for name, silent := range map[string]bool{"answered": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTelling()
				eng := open(t, s, core.WithLinger(time.Hour))
				inside := mustAcquire(t, eng, "inside")
				const many = 3000
				for i := range many {
					sticky(t, eng, fmt.Sprint(i))
				}
				if silent {
					s.onRelease = func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return errDown }
				}
				began := time.Now()
				time.AfterFunc(time.Second, func() { _ = inside.Release(context.Background()) })
				err := eng.Close(context.Background())
				if took := time.Since(began); took > time.Second+2*defaultReleaseTimeout+time.Second {
					t.Errorf("Close took %v", took)
				}
				if silent != errors.Is(err, core.ErrOutcomeUnknown) {
					t.Errorf("Close: %v", err)
				}
				if n := s.releases(); !silent && n != many+1 {
					t.Errorf("%d of %d leases went back", n, many+1)
				}
				if left := eng.Left(); left != "" {
					t.Error(left)
				}
			})
		})
	}
}

// Nothing lingers while the circuit is open, and what lingers is not taken.
func TestLingerAndCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Hour))
		sticky(t, eng, "lingers")
		inside := mustAcquire(t, eng, "inside")
		s.change(func() {
			s.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		})
		for range 3 {
			_, _ = eng.Acquire(context.Background(), "other", core.WithMaxWait(time.Second))
		}
		_, err := eng.Acquire(context.Background(), "lingers", core.WithMaxWait(time.Second))
		wantOnly(t, err, core.ErrUnavailable, core.ErrCircuitOpen)
		mustRelease(t, inside)
		lingers(t, s, "inside", false)
	})
}

// What another process may work under, or was changed, or has been waited for, does not linger.
func TestLingersNot(t *testing.T) {
	ctx := context.Background()
	for name, use := range map[string]func(*testing.T, *core.Engine){
		"shared":  func(t *testing.T, e *core.Engine) { sticky(t, e, "k", core.WithShared()) },
		"permit":  func(t *testing.T, e *core.Engine) { sticky(t, e, "k", core.WithPermits(3)) },
		"minimum": func(t *testing.T, e *core.Engine) { sticky(t, e, "k", core.WithMinHold(time.Millisecond)) },
		"set":     func(t *testing.T, e *core.Engine) { mustRelease(t, acquireAll(t, e, exclusive("j", "k")...)) },
		"once": func(t *testing.T, e *core.Engine) {
			if _, err := e.Once(ctx, "k", func(context.Context) ([]byte, error) { return nil, errDown }); !errors.Is(err, errDown) {
				t.Error(err)
			}
		},
		"extended": func(t *testing.T, e *core.Engine) {
			l := mustAcquire(t, e, "k")
			if err := l.Extend(ctx, time.Minute); err != nil {
				t.Error(err)
			}
			mustRelease(t, l)
		},
		"downgraded": func(t *testing.T, e *core.Engine) {
			l := mustAcquire(t, e, "k")
			if err := l.Downgrade(ctx); err != nil {
				t.Error(err)
			}
			mustRelease(t, l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTelling()
				use(t, newEngine(t, s, core.WithLinger(time.Hour)))
				time.Sleep(time.Second)
				lingers(t, s, "k", false)
				isFree(t, newEngine(t, s.Peer()), "k")
			})
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
		if s.asked != 1 || !slices.Equal(c.order, c.names(3)) {
			t.Errorf("asked %d times, served in the order %v", s.asked, c.order)
		}
		lingers(t, s, "k", true)

		inside, err := here.TryAcquire(context.Background(), "k") // a lease that is not handed on
		if err != nil {
			t.Fatal(err)
		}
		s.deaf = true // the line is enough to know that somebody waits
		c.join(here, "3", 0)
		began := time.Now()
		mustRelease(t, inside)
		c.all.Wait()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a caller that asked the store waited %v for a lease of its own process", waited)
		}
		s.deaf = false
		if want := append(c.names(3), "3"); !slices.Equal(c.order, want) {
			t.Errorf("served in the order %v, want %v", c.order, want)
		}

		for range 3 { // processes in turns, each with a caller in line
			time.Sleep(2 * time.Hour)
			there := newEngine(t, s.Peer(), core.WithLinger(time.Hour))
			inside := mustAcquire(t, here, "k")
			c = &crowd{t: t}
			c.join(there, "there 0", time.Millisecond)
			c.join(here, "here 0", time.Millisecond)
			c.join(there, "there 1", time.Millisecond)
			began := time.Now()
			mustRelease(t, inside)
			c.all.Wait()
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("three callers took %v: %v", took, c.order)
			}
		}
	})
}

// A caller that has gone by the time that it has taken the lease leaves it to others.
func TestLingerTakenByACallerThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		ctx, cancel := context.WithCancel(context.Background())
		eng := newEngine(t, s, core.WithLinger(time.Hour), core.WithHooks(observe.Hooks{Lingered: func(l observe.Linger) {
			if l.State == observe.LingerTaken {
				cancel()
			}
		}}))
		sticky(t, eng, "k")
		if _, err := eng.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		isFree(t, newEngine(t, s.Peer()), "k")
	})
}

func TestLingerOption(t *testing.T) {
	for _, d := range []time.Duration{-1, 25 * time.Hour} {
		_, err := core.New(memstore.New(), core.WithLinger(d))
		wantOnly(t, err, core.ErrInvalidOption)
		_, err = newEngine(t, memstore.New()).Acquire(context.Background(), "k", core.WithLinger(d))
		wantOnly(t, err, core.ErrInvalidOption)
	}
	mute := silentAboutWants{memstore.New()}
	_, err := core.New(mute, core.WithLinger(time.Second))
	wantOnly(t, err, errors.ErrUnsupported)
	eng := newEngine(t, mute)
	for _, opts := range [][]core.CallOption{{core.WithLinger(time.Second)}, {policy(t, core.WithLinger(time.Second))}} {
		_, err = eng.Acquire(context.Background(), "k", opts...)
		wantOnly(t, err, errors.ErrUnsupported)
	}
	sticky(t, eng, "k", core.WithLinger(0))
}

// silentAboutWants is a store that tells nobody that a lease is wanted.
type silentAboutWants struct{ *memstore.Store }

func (s silentAboutWants) Describe() driver.Description {
	d := s.Store.Describe()
	d.OnWanted = nil
	return d
}

// Processes that all keep what they had still exclude each other, and tokens rise, whoever takes
// what lingers at the same moment.
func TestLingerStress(t *testing.T) {
	mem := memstore.New()
	var inside [3]sync.Mutex
	var last [3]uint64
	var all sync.WaitGroup
	for range 3 {
		eng := newEngine(t, mem.Peer(), core.WithLinger(time.Millisecond))
		for g := range 4 {
			all.Go(func() {
				for i := range 400 {
					k := (g + i) % len(inside)
					opts := []core.CallOption{core.WithMaxWait(time.Minute)}
					if i%5 == 0 {
						opts = []core.CallOption{core.WithFailFast()}
					}
					if err := eng.Do(context.Background(), fmt.Sprint(k), func(ctx context.Context) error {
						if !inside[k].TryLock() {
							t.Error("two are inside")
							return nil
						}
						defer inside[k].Unlock()
						l, _ := core.LeaseFrom(ctx)
						if l.Token() <= last[k] {
							t.Errorf("token %d after %d", l.Token(), last[k])
						}
						last[k] = l.Token()
						return nil
					}, opts...); err != nil && !errors.Is(err, core.ErrHeld) {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
}
