package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestForceNeedsAReason(t *testing.T) {
	eng := newEngine(t, answering(func(context.Context) error { t.Error("the store was asked"); return nil }))
	for name, reason := range map[string]string{
		"none":              "",
		"too long":          strings.Repeat("x", driver.MaxNoteBytes+1),
		"a megabyte":        strings.Repeat("é", 1<<19),
		"a line break":      "stuck\nholder",
		"no UTF-8":          "stuck \xff",
		"a control, at end": strings.Repeat("x", driver.MaxNoteBytes-1) + "\x7f",
	} {
		_, forced := eng.ForceRelease(bg, "k", reason)
		_, forgot := eng.Forget(bg, "k", reason)
		for _, err := range []error{forced, forgot} {
			wantOnly(t, err, core.ErrInvalidOption)
			check(t, len(err.Error()) <= 500, "%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	wantNil(t, errOf(newEngine(t, answering(noWork)).ForceRelease(bg, "k", strings.Repeat("x", driver.MaxNoteBytes))))
}

// A removal by force leaves traces. A call that finds no holder leaves none.
func TestForceIsToldAndLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		holders int
		forget  bool // not ForceRelease
		record  bool
		err     error
		unknown bool
		told    string
		logged  []string
	}{
		"held":              {holders: 2, told: "Forced k, it hangs, 2", logged: []string{`level=WARN .* key=k reason="it hangs" count=2 holders="\[owner0 owner1\]" .*`}},
		"held by many":      {holders: 100, told: "Forced k, it hangs, 100", logged: []string{`.* count=100 holders=.* owner15\].*`}},
		"free":              {},
		"on record":         {forget: true, record: true, told: "Forced k, it hangs, 0", logged: []string{`level=WARN .* key=k reason="it hangs" .*`}},
		"not on record":     {forget: true},
		"unanswered":        {err: errDown, unknown: true, logged: []string{`level=WARN .*unanswered.* op=force key=k .*connection refused.*`}},
		"forget unanswered": {forget: true, err: errDown, unknown: true, logged: []string{`level=WARN .*unanswered.* op=forget .*`}},
		"an error":          {err: errors.New("no")},
		// A store that refuses has not done it.
		"refused":         {err: &core.UnavailableError{Op: "force release", Err: errors.New("permission denied"), Refused: true}},
		"refused in part": {err: &core.UnavailableError{Op: "force release", Err: core.ErrOutcomeUnknown, Refused: true}, unknown: true, logged: []string{".*"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, seen, p := newLines(), &recorder{}, answering(nil)
			p.force = func(context.Context, string, string) (holders []driver.Holder, _ error) {
				for i := range tc.holders {
					holders = append(holders, driver.Holder{Owner: fmt.Sprint("owner", i)})
				}
				return holders, tc.err
			}
			p.forget = func(context.Context, string) (bool, error) { return tc.record, tc.err }
			eng := newEngine(t, p, core.WithHooks(seen.hooks(t, "")), core.WithLogger(slog.New(log)))
			var err error
			if tc.forget {
				_, err = eng.Forget(bg, "k", "it hangs")
			} else {
				_, err = eng.ForceRelease(bg, "k", "it hangs")
			}
			wantIs(t, "error", err, tc.err)
			wantEqual(t, "the outcome is unknown", errors.Is(err, core.ErrOutcomeUnknown), tc.unknown)
			told := slices.DeleteFunc(seen.events, func(event string) bool { return !strings.HasPrefix(event, "Forced") })
			wantEqual(t, "told", strings.Join(told, "; "), tc.told)
			log.wantLines(t, tc.logged...)
		})
	}
}

// The victim learns who took the lease away, and why, whichever way it comes to
// ask the store: in its context's cause, in what observers are told, and in the
// error of its release.
func TestForcedLossTellsWhy(t *testing.T) {
	said := func(context.Context, driver.Grant) error {
		return &core.LeaseLostError{Key: "theirs", Token: 1, Reason: driver.LossForced, Detail: "ops: it hangs"}
	}
	for name, renewed := range map[string]bool{"by a renewal": true, "by the release": false} {
		inBubble(t, name, func(t *testing.T) {
			var end error
			spy, eng := newSpied(t, core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, _ observe.Lease, err error) { end = err }}))
			l := mustAcquire(t, eng, "k")
			spy.change(func() { spy.onRenew, spy.onRelease = said, said })
			var told []error
			if renewed {
				time.Sleep(defaultTTL / 2)
				synctest.Wait()
				told = append(told, context.Cause(l.Context()), l.Err())
			}
			told = append(told, l.Release(bg), l.Err())
			for _, err := range append(told, end) {
				var lost *core.LeaseLostError
				want := core.LeaseLostError{Key: "k", Token: l.Token(), Reason: driver.LossForced, Detail: "ops: it hangs"}
				check(t, errors.As(err, &lost) && *lost == want, "error %#v", err)
			}
		})
	}
}

// TestForcedReleaseOfWhatWasSeen: an operator who looks and then acts does not take the key
// from somebody who got it in between.
func TestForcedReleaseOfWhatWasSeen(t *testing.T) {
	mem := memstore.New()
	eng, operator := newEngine(t, mem), newEngine(t, mem.Peer())
	stuck := mustAcquire(t, eng, "k")
	seen, err := operator.Inspect(bg, "k")
	must(t, err)
	mustRelease(t, stuck)
	other := mustAcquire(t, eng, "k")
	err = errOf(operator.ForceRelease(bg, "k", "it hangs", seen.Holders...))
	wantOnly(t, err, core.ErrHeld)
	var held *core.HeldError
	check(t, errors.As(err, &held) && held.Holder == other.Owner(), "held by %+v", held)
	mustRelease(t, other)
}

// One key of a set is taken away, so the whole is lost. Its other keys were held until the end of the TTL.
func TestForceOnOneKeyOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		eng, peer := newEngine(t, store), newEngine(t, store)
		err := eng.DoAll(bg, []core.Claim{core.Exclusive("a"), core.Exclusive("b")}, func(ctx context.Context) error {
			wantNil(t, errOf(peer.ForceRelease(bg, "a", "stuck")))
			<-ctx.Done()
			wantOnly(t, errOf(peer.TryAcquire(bg, "b")), core.ErrHeld)
			return nil
		})
		wantOnly(t, err, core.ErrLeaseLost)
		synctest.Wait()
		l, err := peer.TryAcquire(bg, "b")
		wantNil(t, err)
		wantNil(t, l.Release(bg))
	})
}
