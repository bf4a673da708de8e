package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

var discard = slog.New(slog.DiscardHandler)

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
		t.Run(name, func(t *testing.T) {
			_, err := eng.ForceRelease(bg, "k", reason)
			wantOnly(t, err, core.ErrInvalidOption)
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			_, err = eng.Forget(bg, "k", reason)
			wantOnly(t, err, core.ErrInvalidOption)
		})
	}
	_, err := newEngine(t, answering(noWork)).
		ForceRelease(bg, "k", strings.Repeat("x", driver.MaxNoteBytes))
	wantNil(t, err)
}

// A removal by force leaves traces. A call that finds no holder leaves none.
func TestForceIsToldAndLogged(t *testing.T) {
	var many []driver.Holder
	for i := range 100 {
		many = append(many, driver.Holder{Owner: fmt.Sprint("owner", i)})
	}
	force := func(eng *core.Engine) error {
		_, err := eng.ForceRelease(bg, "k", "it hangs")
		return err
	}
	forget := func(eng *core.Engine) error {
		_, err := eng.Forget(bg, "k", "it hangs")
		return err
	}
	for name, tc := range map[string]struct {
		holders []driver.Holder
		record  bool
		err     error
		do      func(*core.Engine) error
		told    string
		logged  []string
	}{
		"held":              {holders: many[:2], do: force, told: "k it hangs 2", logged: []string{"level=WARN", "key=k", `reason="it hangs"`, "count=2", `holders="[owner0 owner1]"`}},
		"held by many":      {holders: many, do: force, told: "k it hangs 100", logged: []string{"count=100", "owner15]"}},
		"free":              {do: force},
		"on record":         {record: true, do: forget, told: "k it hangs 0", logged: []string{"level=WARN", "key=k", `reason="it hangs"`}},
		"not on record":     {do: forget},
		"unanswered":        {err: errDown, do: force, logged: []string{"level=WARN", "unanswered", "key=k", "op=force", "connection refused"}},
		"forget unanswered": {err: errDown, do: forget, logged: []string{"level=WARN", "unanswered", "op=forget"}},
		"refused":           {err: errors.New("no"), do: force},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var seen []string
			p := answering(nil)
			p.force = func(context.Context, string, string) ([]driver.Holder, error) { return tc.holders, tc.err }
			p.forget = func(context.Context, string) (bool, error) { return tc.record, tc.err }
			eng := newEngine(t, p, core.WithHooks(observe.Hooks{Forced: func(_ context.Context, r observe.Removal) {
				seen = append(seen, fmt.Sprint(r.Key, " ", r.Reason, " ", len(r.Holders)))
			}}), core.WithHooks(observe.Hooks{}), core.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			if err := tc.do(eng); !errors.Is(err, tc.err) && !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			wantEqual(t, "told", strings.Join(seen, ", "), tc.told)
			if (log.Len() > 0) != (len(tc.logged) > 0) || strings.Count(log.String(), "\n") > 1 {
				t.Errorf("logged %q", &log)
			}
			for _, want := range tc.logged {
				if !strings.Contains(log.String(), want) {
					t.Errorf("%q is not in the log: %s", want, &log)
				}
			}
		})
	}
}

// The victim learns who took the lease away, and why, whichever way it comes to
// ask the store: in its context's cause, in what observers are told, and in the
// error of its release.
func TestForcedLossTellsWhy(t *testing.T) {
	said := &core.LeaseLostError{Key: "theirs", Token: 1, Reason: driver.LossForced, Detail: "ops: it hangs"}
	check := func(t *testing.T, err error, l *core.Lease) {
		t.Helper()
		var lost *core.LeaseLostError
		if !errors.As(err, &lost) || lost.Reason != driver.LossForced || lost.Detail != said.Detail || lost.Key != "k" || lost.Token != l.Token() {
			t.Errorf("error %#v", err)
		}
	}
	for name, renewed := range map[string]bool{"by a renewal": true, "by the release": false} {
		inBubble(t, name, func(t *testing.T) {
			spy, end := newSpy(), error(nil)
			eng := newEngine(t, spy, core.WithHooks(observe.Hooks{HoldEnd: func(_ context.Context, _ observe.Lease, err error) { end = err }}))
			l := mustAcquire(t, eng, "k")
			says := func(context.Context, driver.Grant) error { return said }
			spy.change(func() { spy.onRenew, spy.onRelease = says, says })
			if renewed {
				time.Sleep(defaultTTL / 2)
				synctest.Wait()
				check(t, context.Cause(l.Context()), l)
				check(t, l.Err(), l)
			}
			check(t, l.Release(bg), l)
			check(t, l.Err(), l)
			check(t, end, l)
		})
	}
}

// A store that refuses has not done it: nothing is unknown.
func TestForceIsRefused(t *testing.T) {
	for _, c := range []struct {
		err     error
		unknown bool
	}{
		{&core.UnavailableError{Op: "force release", Err: errors.New("permission denied"), Refused: true}, false},
		{&core.UnavailableError{Op: "force release", Err: errors.New("no answer")}, true},
		{&core.UnavailableError{Op: "force release", Err: core.ErrOutcomeUnknown, Refused: true}, true},
	} {
		eng := newEngine(t, answering(func(context.Context) error { return c.err }))
		if _, err := eng.ForceRelease(t.Context(), "k", "why"); errors.Is(err, core.ErrOutcomeUnknown) != c.unknown || !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("%v: %v", c.err, err)
		}
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
	had, err := operator.ForceRelease(bg, "k", "it hangs", seen.Holders...)
	var held *core.HeldError
	if len(had) != 0 || !errors.As(err, &held) || held.Holder != other.Owner() || errors.Is(err, core.ErrOutcomeUnknown) {
		t.Errorf("a key that another has by now: %v, %v", had, err)
	}
	wantNil(t, other.Extend(bg, 0))

	seen, _ = operator.Inspect(bg, "k")
	had, err = operator.ForceRelease(bg, "k", "it hangs", seen.Holders...)
	if err != nil || len(had) != 1 || had[0].Owner != other.Owner() || had[0].Token != other.Token() {
		t.Errorf("%v, %v", had, err)
	}
	wantOnly(t, other.Release(bg), core.ErrLeaseLost)
}

// TestForcedReleaseOfALeaseThatWasHandedOn: to the store it is the lease of the first holder,
// whose token Inspect shows.
func TestForcedReleaseOfALeaseThatWasHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		first := mustAcquire(t, eng, "k")
		next := make(chan *core.Lease)
		go func() { next <- mustAcquire(t, eng, "k") }()
		synctest.Wait()
		mustRelease(t, first)
		second := <-next
		if second.Owner() != first.Owner() {
			t.Fatal("it was not handed on")
		}
		seen, err := eng.Inspect(bg, "k")
		must(t, err)
		had, err := eng.ForceRelease(bg, "k", "it hangs", seen.Holders...)
		if len(had) != 1 || err != nil {
			t.Errorf("%v, %v", had, err)
		}
		wantOnly(t, second.Release(bg), core.ErrLeaseLost)
	})
}
