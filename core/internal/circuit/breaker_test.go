package circuit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

const silence = 2 * time.Second

var errDown = &driver.UnavailableError{Op: "acquire", Err: errors.New("connection refused")}

// trial is a breaker, and what it said.
type trial struct {
	*circuit.Breaker
	lines []string
}

func newTrial(silence time.Duration, partition func(string) string) *trial {
	tr := &trial{}
	tr.Breaker = circuit.New(circuit.Config{
		Silence:   silence,
		Partition: partition,
		Log: func(_ context.Context, level slog.Level, msg string, args ...any) {
			tr.lines = append(tr.lines, fmt.Sprint(level, " ", msg, " ", args))
		},
		Answered: func() {},
	})
	return tr
}

// inBubble runs a subtest with a clock of its own.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func claimsOf(keys ...string) []driver.Claim {
	claims := make([]driver.Claim, len(keys))
	for i, key := range keys {
		claims[i] = driver.Claim{Key: key}
	}
	return claims
}

// ask has the store answer with err, and says whether it was asked.
func (tr *trial) ask(ctx context.Context, err error, keys ...string) (sent bool, _ error) {
	got := tr.askWith(ctx, time.Now(), func(context.Context) error { sent = true; return err }, keys...)
	return sent, got
}

// askWith sends a request of a caller that began to wait then.
func (tr *trial) askWith(ctx context.Context, began time.Time, store func(context.Context) error, keys ...string) error {
	_, _, _, err := tr.Ask(ctx, began, driver.Request{Claims: claimsOf(keys...)},
		func(ctx context.Context, _ driver.Request) (driver.Grant, *driver.Record, error) {
			return driver.Grant{}, nil, store(ctx)
		})
	return err
}

func fails(context.Context) error { return errDown }

func hangs(ctx context.Context) error { <-ctx.Done(); return errDown }

// open has the circuit for keys open.
func (tr *trial) open(t *testing.T, keys ...string) {
	t.Helper()
	for range 3 {
		if sent, _ := tr.ask(t.Context(), errDown, keys...); !sent {
			t.Fatal("refused before its time")
		}
		time.Sleep(silence / 2)
	}
	tr.wantRefused(t, keys...)
}

func (tr *trial) wantRefused(t *testing.T, keys ...string) {
	t.Helper()
	// The pause may be over by now; a request that asks begins the next one.
	_, _ = tr.ask(t.Context(), errDown, keys...)
	sent, err := tr.ask(t.Context(), nil, keys...)
	check(t, !sent && errors.Is(err, circuit.ErrOpen) && errors.Is(err, driver.ErrUnavailable), "%v: sent %v, error %v; want it refused", keys, sent, err)
	if err := tr.Refuses(claimsOf(keys...)); !errors.Is(err, circuit.ErrOpen) {
		t.Errorf("%v: Refuses says %v", keys, err)
	}
}

func (tr *trial) wantAsked(t *testing.T, keys ...string) {
	t.Helper()
	if sent, err := tr.ask(t.Context(), nil, keys...); !sent || err != nil {
		t.Errorf("%v: sent %v, error %v; want it asked", keys, sent, err)
	}
}

// Failures open a circuit if there is no answer between them for as long as it is set to, and
// no pause between them that is as long.
func TestOpens(t *testing.T) {
	bg := context.Background()
	ended, cancel := context.WithCancel(bg)
	cancel()
	asks := func(ctx context.Context, err error, key string) func(*trial) {
		return func(tr *trial) { _, _ = tr.ask(ctx, err, key) }
	}
	fails := asks(bg, errDown, "k")
	failsAnd := func(then func(*trial)) func(*trial) { return func(tr *trial) { fails(tr); then(tr) } }
	learns := func(err error) func(*trial) { return func(tr *trial) { tr.Learn(claimsOf("other"), err) } }
	for name, tc := range map[string]struct {
		step func(*trial) // again and again
		want bool
	}{
		"failures":                            {fails, true},
		"a grant among them":                  {failsAnd(asks(bg, nil, "other")), false},
		"a holder among them":                 {failsAnd(asks(bg, &driver.HeldError{Key: "other"}, "other")), false},
		"a request that was told to wait":     {failsAnd(func(tr *trial) { tr.Held(bg, claimsOf("other"), driver.HeldError{}) }), false},
		"a renewal among them":                {failsAnd(learns(nil)), false},
		"a renewal that found its lease lost": {failsAnd(learns(&driver.LeaseLostError{})), false},
		"a renewal that failed":               {failsAnd(learns(errDown)), true},
		"callers that hung up":                {asks(ended, errDown, "k"), false},
		"failures that are no outage":         {asks(bg, errors.New("bug"), "k"), false},
		"now and then":                        {failsAnd(func(*trial) { time.Sleep(2 * silence) }), false},
	} {
		inBubble(t, name, func(t *testing.T) {
			tr := newTrial(silence, nil)
			for began := time.Now(); time.Since(began) < 3*silence; time.Sleep(silence / 10) {
				tc.step(tr)
			}
			opened := tr.IsOut("k")
			check(t, opened == tc.want, "opened: %v, want %v", opened, tc.want)
		})
	}
}

// The time of an answer is not written down for each of many. Once a request has failed,
// every answer counts.
func TestAnswersInQuickSuccession(t *testing.T) {
	for name, answer := range map[string]func(*trial){
		"grants":   func(tr *trial) { _, _ = tr.ask(context.Background(), nil, "k") },
		"releases": func(tr *trial) { tr.Learn(claimsOf("k"), nil) },
	} {
		inBubble(t, name, func(t *testing.T) {
			tr := newTrial(silence, nil)
			answer(tr)
			time.Sleep(100 * time.Microsecond)
			began := time.Now()
			_ = tr.askWith(t.Context(), began, fails, "k")
			time.Sleep(100 * time.Microsecond)
			answer(tr)
			time.Sleep(2 * silence)
			_ = tr.askWith(t.Context(), began, fails, "k")
			tr.wantAsked(t, "k")
			check(t, len(tr.lines) <= 0, "opened: %q", tr.lines)
		})
	}
}

// A request that was sent before the last answer, and one whose deadline left the store
// no time, say nothing about the store now.
func TestLateAndShortRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(silence, nil)
		began := time.Now()
		time.Sleep(silence)
		tr.wantAsked(t, "k")
		for range 50 {
			time.Sleep(silence / 10)
			_ = tr.askWith(t.Context(), began, fails, "k")
			ctx, cancel := context.WithTimeout(t.Context(), circuit.FairTime/2)
			_ = tr.askWith(ctx, time.Now(), hangs, "k")
			cancel()
		}
		check(t, len(tr.lines) <= 0, "opened: %q", tr.lines)
	})
}

// One request at a time finds out whether the store is back. It has 2 s; the pauses
// between those that fail grow from 0.1 s to 0.5 s.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(silence, nil)
		tr.open(t, "k")
		time.Sleep(longest) // more than the first two pauses
		pause := 200 * time.Millisecond
		for range 6 {
			began := time.Now()
			done := make(chan time.Duration, 1)
			go func() {
				_ = tr.askWith(t.Context(), began, hangs, "k")
				done <- time.Since(began)
			}()
			synctest.Wait()
			if sent, err := tr.ask(t.Context(), nil, "k"); sent || !errors.Is(err, circuit.ErrOpen) {
				t.Errorf("a second one is sent: %v, %v", sent, err)
			}
			took := <-done
			check(t, took == circuit.ProbeTime, "a probe took %v", took)
			time.Sleep(pause - time.Millisecond)
			check(t, tr.Refuses(claimsOf("k")) != nil, "a pause is shorter than %v", pause)
			time.Sleep(time.Millisecond)
			if err := tr.Refuses(claimsOf("k")); err != nil {
				t.Errorf("a pause is longer than %v", pause)
			}
			pause = min(2*pause, longest)
		}
		// A probe that is told to wait has its answer, and waits on.
		_, _, _, err := tr.Ask(t.Context(), time.Now(), driver.Request{Claims: claimsOf("k"), OnHeld: func(held driver.HeldError) {
			tr.Held(t.Context(), claimsOf("k"), held)
		}}, func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
			req.OnHeld(driver.HeldError{Key: "k"})
			select {
			case <-ctx.Done():
				return driver.Grant{}, nil, errDown
			case <-time.After(time.Minute):
				return driver.Grant{}, nil, nil
			}
		})
		check(t, err == nil, "a probe that waits for a holder: %v", err)
		tr.wantAsked(t, "k")
		check(t, len(tr.lines) == 2 && strings.Contains(tr.lines[1], "store answers"), "lines %q", tr.lines)
	})
}

// longest is the longest pause after a probe.
const longest = 500 * time.Millisecond

// A store that panics leaves room for the next probe.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(silence, nil)
		tr.open(t, "k")
		time.Sleep(longest)
		func() {
			defer func() { _ = recover() }()
			_ = tr.askWith(t.Context(), time.Now(), func(context.Context) error { panic("bug") }, "k")
		}()
		tr.wantAsked(t, "k")
	})
}

// partition is what stands in front of a key's colon.
func partition(key string) string {
	name, _, _ := strings.Cut(key, ":")
	return name
}

// A set's failure that names no part concerns none.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(silence, partition)
		for range 9 {
			_, _ = tr.ask(t.Context(), errDown, "a:1", "b:1")
			time.Sleep(silence / 2)
		}
		tr.wantAsked(t, "a:1")
		tr.wantAsked(t, "b:1")
		got := tr.Parts(claimsOf("b:1", "a:1", "b:2"))
		check(t, got == "a b", "parts %q", got)
	})
}
