package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// A lease that lingers goes to whoever wants it, in whatever way, without a wait.
func TestLingerGivesWay(t *testing.T) {
	ctx := bg
	for name, take := range map[string]func(*core.Engine) (*core.Lease, error){
		"exclusive": func(e *core.Engine) (*core.Lease, error) { return e.Acquire(ctx, "k") },
		"shared":    func(e *core.Engine) (*core.Lease, error) { return e.Acquire(ctx, "k", core.WithShared()) },
		"a permit":  func(e *core.Engine) (*core.Lease, error) { return e.Acquire(ctx, "k", core.WithPermits(2)) },
		"a set":     func(e *core.Engine) (*core.Lease, error) { return e.AcquireAll(ctx, exclusive("a", "k")) },
		"a second try": func(e *core.Engine) (*core.Lease, error) {
			if l, err := e.TryAcquire(ctx, "k"); !errors.Is(err, core.ErrHeld) {
				return l, err
			}
			synctest.Wait()
			return e.TryAcquire(ctx, "k")
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTelling()
			here := newEngine(t, s, core.WithLinger(time.Minute))
			for _, who := range []*core.Engine{newEngine(t, s.Peer()), here} {
				last := sticky(t, here, "k")
				lingers(t, s, "k", true)
				began := time.Now()
				l, err := take(who)
				must(t, err)
				if waited := time.Since(began); waited > 0 || l.Token() <= last.Token() {
					t.Errorf("waited %v, token %d after %d", waited, l.Token(), last.Token())
				}
				mustRelease(t, l)
				time.Sleep(2 * time.Minute)
			}
		})
	}
}

// A caller that does not wait is refused by another process, never by a lease of its own that
// nobody uses.
func TestLingerRefusesOtherProcessesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		here, there := newEngine(t, s, core.WithLinger(time.Minute)), newEngine(t, s.Peer())
		refused := func() *core.HeldError {
			_, err := there.TryAcquire(bg, "k")
			wantOnly(t, err, core.ErrHeld)
			held := (*core.HeldError)(nil)
			errors.As(err, &held)
			synctest.Wait()
			return held
		}
		sticky(t, here, "k")
		if held := refused(); held.HeldFor != 0 {
			t.Errorf("held for %v, though nobody knows", held.HeldFor)
		}
		isFree(t, there, "k")
		inside := mustAcquire(t, here, "k") // and while somebody works under it, for that work
		refused()
		mustRelease(t, inside)
		isFree(t, there, "k")
		sticky(t, here, "k")
		for _, opts := range [][]core.CallOption{nil, {core.WithShared()}, {core.WithTTL(time.Minute)}} {
			l, err := here.TryAcquire(bg, "k", opts...)
			must(t, err)
			mustRelease(t, l)
		}
		_, err := here.Once(bg, "k", nothing, core.WithFailFast())
		wantNil(t, err)
	})
}

// A message that comes before the grant is not lost, nor that messages may have been missed.
func TestLingerWantedBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTelling()
		eng := newEngine(t, s, core.WithLinger(time.Minute))
		for i, tell := range []func(owner string){func(owner string) { s.tell("k", owner) }, func(string) { s.tell("", "") }, func(string) {}} {
			s.onAcquire = func(_ context.Context, req driver.Request) error { tell(req.Owner); return nil }
			sticky(t, eng, "k")
			lingers(t, s, "k", i == 2)
		}
	})
}
