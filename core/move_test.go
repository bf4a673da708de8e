package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// ahead is a store whose clock, and so its tokens, are ahead by that much.
type ahead struct {
	*memstore.Store
	by time.Duration
}

func (a ahead) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := a.Store.Acquire(ctx, req)
	if err == nil {
		g.Token += uint64(a.by.Microseconds())
	}
	return g, err
}

// own is g as the store knows it.
func (a ahead) own(g driver.Grant) driver.Grant {
	g.Token -= uint64(a.by.Microseconds())
	return g
}

func (a ahead) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := make([]error, len(grants))
	for i, g := range grants {
		errs[i] = a.Store.Renew(ctx, []driver.Grant{a.own(g)})[0]
	}
	return errs
}

func (a ahead) Release(ctx context.Context, g driver.Grant) error {
	return a.Store.Release(ctx, a.own(g))
}

// TestMoveExcludesBothKinds: processes that know the old store, the new store, and both take turns,
// and tokens rise, also if one clock is ahead of the other.
func TestMoveExcludesBothKinds(t *testing.T) {
	for name, by := range map[string]struct{ old, new time.Duration }{
		"equal clocks": {}, "old ahead": {200 * time.Millisecond, 0}, "new ahead": {0, 200 * time.Millisecond},
	} {
		inBubble(t, name, func(t *testing.T) {
			oldMem, newMem := memstore.New(), memstore.New()
			plain := func(mem *memstore.Store, by time.Duration) *core.Engine {
				return newEngine(t, ahead{mem.Peer(), by})
			}
			moving := func() *core.Engine {
				return newEngine(t, ahead{newMem.Peer(), by.new}, core.WithMoveFrom(plain(oldMem, by.old)))
			}
			defer newEngine(t, oldMem) // closes the memories
			defer newEngine(t, newMem)
			inside, turns := 0, 0
			var last uint64
			turn := func(ctx context.Context, eng *core.Engine) {
				ctx, hangUp := context.WithCancel(ctx) // the tokens rise also if the caller has gone, or panics
				defer func() { _ = recover() }()
				wantNil(t, eng.Do(ctx, "k", func(ctx context.Context) error {
					l, _ := core.LeaseFrom(ctx)
					if inside++; inside > 1 {
						t.Error("two holders")
					}
					check(t, l.Token() > last, "token %d after %d", l.Token(), last)
					last = l.Token()
					turns++
					time.Sleep(3 * time.Millisecond)
					inside--
					hangUp()
					if turns%3 == 0 {
						panic("oh")
					}
					return nil
				}, core.WithTTL(time.Second)))
			}
			work := func(eng *core.Engine, until time.Duration, ctx context.Context) {
				for end := time.Now().Add(until); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
					turn(ctx, eng)
				}
			}
			left := make(chan struct{}) // nobody is left that knows only the old store
			go func() {
				work(plain(oldMem, by.old), 3*time.Second, bg) // step 1
				close(left)
			}()
			for _, eng := range []*core.Engine{moving(), moving()} {
				for range 3 { // which could hand their leases on
					go work(eng, 6*time.Second, bg)
				}
			}
			<-left
			time.Sleep(time.Second)
			work(plain(newMem, by.new), 2*time.Second, bg) // step 2
			time.Sleep(10 * time.Second)
			synctest.Wait()
			check(t, turns >= 20, "%d turns", turns)
		})
	}
}

// TestMoveOfOnce: nobody runs again what a process of the other kind has run.
func TestMoveOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		oldMem, newMem := memstore.New(), memstore.New()
		old, moving := newEngine(t, oldMem), newEngine(t, newMem, core.WithMoveFrom(newEngine(t, oldMem.Peer())))
		after, unkept := newEngine(t, newMem.Peer()), core.WithResultLimit(0)
		for _, step := range []struct {
			who   *core.Engine
			key   string
			fresh bool
			opts  []core.CallOption
		}{
			{old, "a", true, nil},
			{moving, "a", false, nil},
			{moving, "b", true, nil},
			{old, "b", false, nil},
			{moving, "b", false, nil},
			{after, "b", false, nil},
			{after, "c", true, nil},
			{moving, "c", false, nil},
			{old, "c", false, nil}, // moving has left it there
			{moving, "d", true, []core.CallOption{unkept}},
			{old, "d", false, nil},
			{after, "d", false, nil},
		} {
			out, err := step.who.Once(bg, step.key, func(context.Context) ([]byte, error) { return []byte("r"), nil }, step.opts...)
			if kept := !out.ResultNotKept; out.Duplicate == step.fresh || kept && (err != nil || string(out.Result) != "r") {
				t.Errorf("%s: %+v, %v", step.key, out, err)
			}
		}
		wantNil(t, moving.OnceEach(bg, items("e", "f"), func(ctx context.Context, _ []int) error {
			l, _ := core.LeaseFrom(ctx)
			info, err := after.Inspect(bg, "f")
			check(t, err == nil && info.Holders[0].Token == l.Token(), "token %d; %+v, %v", l.Token(), info, err)
			return nil
		}))
		for _, step := range []struct {
			who             *core.Engine
			version, newest uint64
		}{{moving, 7, 7}, {old, 9, 9}, {moving, 8, 9}, {after, 0, 9}} {
			if n, err := step.who.AdvanceVersion(bg, "v", step.version); n != step.newest || err != nil {
				t.Errorf("version %d after %d, %v", n, step.version, err)
			}
		}
		for _, key := range []string{"a", "v"} { // "a" is on record on the old store alone
			was, err := moving.Forget(bg, key, "test")
			check(t, was && err == nil, "forget %q: %t, %v", key, was, err)
		}
		out, err := moving.Once(bg, "a", nothing)
		n, versionErr := moving.AdvanceVersion(bg, "v", 1)
		check(t, !out.Duplicate && err == nil && n == 1 && versionErr == nil, "after Forget: %+v, %v; %d, %v", out, err, n, versionErr)
	})
}

// TestMoveFails with the error of the store that fails, and holds nothing afterwards.
func TestMoveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		oldSpy, newSpies := newSpy(), newSpy()
		old := newEngine(t, oldSpy)
		eng := newEngine(t, newSpies, core.WithMoveFrom(old))
		free := func() {
			t.Helper()
			isFree(t, newEngine(t, oldSpy.Peer()), "k")
			isFree(t, newEngine(t, newSpies.Peer()), "k")
		}
		own := errors.New("own")
		if err := eng.Do(bg, "k", func(context.Context) error { return own }); err != own {
			t.Error(err)
		}
		free()
		for _, spy := range []*spy{oldSpy, newSpies} {
			spy.cutOff()
			wantOnly(t, eng.Do(bg, "k", func(context.Context) error { t.Error("ran"); return nil }), core.ErrUnavailable)
			spy.reach()
			time.Sleep(time.Minute)
			free()
			l := mustAcquire(t, newEngine(t, spy.Peer()), "k")
			wantOnly(t, eng.Do(bg, "k", func(context.Context) error { t.Error("ran"); return nil }, core.WithMaxWait(time.Second)), core.ErrHeld, core.ErrWaitTimeout)
			mustRelease(t, l)
			free()
		}
		err := eng.Do(bg, "k", func(ctx context.Context) error {
			oldSpy.cutOff()
			<-ctx.Done()
			oldSpy.reach()
			return context.Cause(ctx)
		}, core.WithTTL(time.Second))
		wantOnly(t, err, core.ErrLeaseLost)
		far := newEngine(t, ahead{memstore.New(), 2 * time.Second}, core.WithMoveFrom(newEngine(t, memstore.New())))
		wantOnly(t, far.Do(bg, "k", func(context.Context) error { t.Error("ran"); return nil }), core.ErrUnavailable)
		behind := newEngine(t, memstore.New(), core.WithMoveFrom(newEngine(t, ahead{memstore.New(), 2 * time.Second})))
		wantOnly(t, behind.Do(bg, "k", func(context.Context) error { t.Error("ran"); return nil }), core.ErrUnavailable)
		alone := newEngine(t, memstore.New())
		wantOnly(t, alone.Do(callerFor(t, time.Minute, 0), "k", func(ctx context.Context) error {
			return alone.Do(ctx, "k", func(context.Context) error { t.Error("ran"); return nil }, core.WithMoveFrom(old))
		}), core.ErrUnavailable)
	})
}

// TestMoveHandsNothingOn: a lease of one store that is handed on has an old token, and the other store
// may have granted its own meanwhile.
func TestMoveHandsNothingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		granted := 0
		hooks := core.WithHooks(observe.Hooks{AcquireEnd: func(_ context.Context, _ observe.Acquisition, l observe.Lease, _ error) {
			if granted++; l.HandedOff() {
				t.Error("a lease was handed on")
			}
		}})
		eng := newEngine(t, memstore.New(), hooks, core.WithLinger(time.Minute),
			core.WithMoveFrom(newEngine(t, memstore.New(), hooks, core.WithLinger(time.Minute))))
		for range 3 {
			go func() { _ = eng.Do(bg, "k", func(context.Context) error { time.Sleep(time.Millisecond); return nil }) }()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		check(t, granted >= 6, "%d leases", granted)
	})
}

func TestMoveIsRefused(t *testing.T) {
	old, eng := newEngine(t, newSpy()), newEngine(t, newSpy())
	bare := newEngine(t, described{newSpy(), func(d *driver.Description) { *d = driver.Description{} }})
	for i, tc := range []struct{ err, want error }{
		{errOf(eng.Acquire(bg, "k", core.WithMoveFrom(old))), core.ErrInvalidOption},
		{errOf(eng.AcquireAll(bg, exclusive("k"), core.WithMoveFrom(old))), core.ErrInvalidOption},
		{eng.Do(bg, "k", noWork, core.WithMoveFrom(nil)), core.ErrInvalidOption},
		{eng.Do(bg, "k", noWork, core.WithMoveFrom(eng)), core.ErrInvalidOption},
		{eng.Do(bg, "k", noWork, core.WithMoveFrom(newEngine(t, newSpy(), core.WithMoveFrom(old)))), core.ErrInvalidOption},
		{errOf(eng.AdvanceVersion(bg, "k", 1, core.WithMoveFrom(eng))), core.ErrInvalidOption},
		{eng.Do(bg, "k", noWork, core.WithMoveFrom(bare), core.WithShared()), errors.ErrUnsupported},
		{errOf(eng.Once(bg, "k", nothing, core.WithMoveFrom(bare))), errors.ErrUnsupported},
		{declared(eng, policy(t, core.WithMoveFrom(bare)), coverage.Rule{Skips: coverage.SkipSuperseded}, "k"), errors.ErrUnsupported},
		{eng.Do(bg, "k", noWork, core.WithMoveFrom(bare)), nil},
	} {
		wantIs(t, fmt.Sprint(i), tc.err, tc.want)
	}
}

// TestMoveReleasesEarly on both stores, also a set of which the context holds a part.
func TestMoveReleasesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, store := memstore.New(), memstore.New()
		eng := newEngine(t, store, core.WithMoveFrom(newEngine(t, old)))
		before, after := newEngine(t, old.Peer()), newEngine(t, store.Peer())
		work := func(ctx context.Context) error {
			wantNil(t, core.ReleaseEarly(ctx))
			lease, _ := core.LeaseFrom(ctx)
			next, err := before.TryAcquire(bg, "k")
			must(t, err)
			check(t, next.Token() > lease.Token(), "tokens fall")
			last, err := after.TryAcquire(bg, "k")
			must(t, err)
			return errors.Join(next.Release(bg), last.Release(bg))
		}
		wantNil(t, eng.Do(bg, "k", work))
		wantNil(t, eng.Do(bg, "a", func(ctx context.Context) error { return eng.DoAll(ctx, exclusive("a", "k"), work) }))
	})
}

// TestMoveIsOneLease: the lease of a move ends with that of either store, and what is done with it is done to both.
func TestMoveIsOneLease(t *testing.T) {
	for name, tc := range map[string]struct {
		lost int // 0: on the old store
		opts []core.CallOption
	}{"old": {0, nil}, "old, context goes on": {0, []core.CallOption{core.WithoutCancelOnLoss()}}, "new, context goes on": {1, []core.CallOption{core.WithoutCancelOnLoss()}}} {
		inBubble(t, name, func(t *testing.T) {
			old, store := memstore.New(), memstore.New()
			eng := newEngine(t, store, core.WithMoveFrom(newEngine(t, old)))
			peers := []*core.Engine{newEngine(t, old.Peer()), newEngine(t, store.Peer())}
			wantOnly(t, eng.Do(bg, "k", func(ctx context.Context) error {
				lease, _ := core.LeaseFrom(ctx)
				attached, detach := lease.Attach(bg)
				defer detach()
				wantNil(t, eng.Do(attached, "k", noWork, core.WithFailFast()))
				wantNil(t, lease.Extend(ctx, time.Minute))
				for _, peer := range peers {
					info, err := peer.Inspect(bg, "k")
					check(t, err == nil && info.Holders[0].Left > 30*time.Second, "after Extend: %+v, %v", info, err)
				}
				wantNil(t, lease.Err())
				must(t, errOf(peers[tc.lost].ForceRelease(bg, "k", "test")))
				forced := time.Now()
				<-lease.Done()
				synctest.Wait()
				check(t, time.Since(forced) < time.Minute, "told after %v", time.Since(forced))
				wantOnly(t, lease.Err(), core.ErrLeaseLost)
				wantOnly(t, core.AssertHeld(ctx, core.Exclusive("k")), core.ErrLeaseLost)
				check(t, (attached.Err() == nil) == (len(tc.opts) > 0), "attached: %v", attached.Err())
				return nil
			}, tc.opts...), core.ErrLeaseLost)
		})
	}
}
