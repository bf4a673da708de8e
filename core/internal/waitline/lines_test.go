package waitline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/waitline"
)

const (
	fair = 100 * time.Millisecond
	ttl  = 10 * time.Second
)

func newLines(most, total int) *waitline.Lines {
	return waitline.New(waitline.Config{MaxWaiters: most, MaxWaitersTotal: total, FairTime: fair})
}

func waiter(keys ...string) *waitline.Waiter {
	var claims []driver.Claim
	for _, k := range keys {
		claims = append(claims, driver.Exclusive(k))
	}
	return wants(claims...)
}

func wants(claims ...driver.Claim) *waitline.Waiter {
	w := &waitline.Waiter{Since: time.Now()}
	w.Want(claims)
	return w
}

// enter has w in line, on a goroutine of its own if it has to wait there.
func enter(ls *waitline.Lines, w *waitline.Waiter) <-chan error {
	done := make(chan error, 1)
	go func() { done <- ls.Enter(context.Background(), w, nil) }()
	synctest.Wait()
	return done
}

func mustEnter(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatal("it waits")
	}
}

func mustWait(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("it does not wait: %v", err)
	default:
	}
}

func refused() waitline.Answer {
	return waitline.Answer{Err: &driver.HeldError{Key: "k", Holder: "other"}, At: time.Now()}
}

func empty(t *testing.T, ls *waitline.Lines) {
	t.Helper()
	if ls.Len() != 0 || ls.Waiting() != 0 {
		t.Errorf("%d lines with %d waiting are left", ls.Len(), ls.Waiting())
	}
}

// The error of a caller that gives up in line depends on what the store said to the caller in
// front of it.
func TestVerdicts(t *testing.T) {
	outage := &driver.UnavailableError{Op: "acquire"}
	for name, c := range map[string]struct {
		maxWait time.Duration
		store   func(*waitline.Lines, *waitline.Waiter) // what becomes of the one in front
		want    error                                   // nil: it may ask the store
		holder  string
		hurried bool
	}{
		"the store told of a holder": {maxWait: time.Second, store: func(ls *waitline.Lines, w *waitline.Waiter) {
			ls.HeldBy(w, driver.HeldError{Key: "k", Holder: "other"})
		}, want: driver.ErrHeld, holder: "other"},
		"the store is silent":     {maxWait: time.Second, want: driver.ErrUnavailable},
		"silent for a short time": {maxWait: fair / 2, want: driver.ErrUnavailable, hurried: true},
		"an outage": {maxWait: time.Second, store: func(ls *waitline.Lines, w *waitline.Waiter) {
			ls.Leave(w, waitline.Answer{Err: outage, At: time.Now()})
			next := waiter("k") // behind the one that waits, who asks now
			next.MaxWait = time.Millisecond
			if err := ls.Enter(context.Background(), next, nil); err != error(outage) {
				panic(fmt.Sprint("the next one was told ", err))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ls := newLines(100, 100)
				first, second := waiter("k"), waiter("k")
				second.MaxWait = c.maxWait
				mustEnter(t, enter(ls, first))
				done := enter(ls, second)
				if c.store != nil {
					c.store(ls, first)
				}
				err := <-done
				if !errors.Is(err, c.want) || errors.Is(err, waitline.ErrHurried) != c.hurried {
					t.Errorf("%v, want %v", err, c.want)
				}
				var held *driver.HeldError
				if errors.As(err, &held) && (held.Holder != c.holder || !held.Local) {
					t.Errorf("%+v", held)
				}
				if waited := time.Since(second.Since); c.want != nil && waited != c.maxWait {
					t.Errorf("gave up after %v", waited)
				}
				ls.Leave(first, waitline.Answer{})
				ls.Leave(second, waitline.Answer{})
				empty(t, ls)
			})
		})
	}
}

// A set that waits for one of its keys keeps nobody waiting with the others.
func TestSetGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 100)
		first := waiter("b")
		mustEnter(t, enter(ls, first))
		set := wants(driver.Shared("a"), driver.Exclusive("b"))
		waits := enter(ls, set)
		mustWait(t, waits)
		reader := wants(driver.Shared("a"))
		mustEnter(t, enter(ls, reader))
		ls.Leave(reader, refused())
		ls.Leave(first, refused())
		mustEnter(t, waits)
		ls.Asks(set, time.Now())
		ls.Leave(set, waitline.Answer{At: time.Now()})
		empty(t, ls)
	})
}

func TestRecordIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 100)
		first, twin, other, late := waiter("k"), waiter("k"), waiter("k"), waiter("k")
		twin.Once, late.Once = true, true
		mustEnter(t, enter(ls, first))
		asked := time.Now()
		shared, waits := enter(ls, twin), enter(ls, other)
		time.Sleep(time.Millisecond)
		late.Since = time.Now()
		afterwards := enter(ls, late)
		rec := &driver.Record{Result: []byte("done")}
		ls.Share("k", rec, asked)
		rec.Result[0] = 'x'
		mustEnter(t, shared)
		mustWait(t, waits)
		mustWait(t, afterwards)
		if string(twin.Got.Record.Result) != "done" {
			t.Errorf("%q", twin.Got.Record.Result)
		}
		for _, w := range []*waitline.Waiter{first, other, late} {
			ls.Leave(w, refused())
		}
		empty(t, ls)
	})
}

// grant is what the store gave for key.
func grant(key string) handoff.Grant {
	now := time.Now()
	return handoff.Grant{
		Grant: driver.Grant{Owner: "o", Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl, Token: 1, HandOffs: handoff.MaxHandOffs, Since: now},
		Heard: now, Heritable: true,
	}
}

// A lease goes from one caller to the next, who does not ask the store, until the
// streak is over.
func TestLeaseIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 100)
		first, second, third := waiter("k"), waiter("k"), waiter("k")
		second.HeirTTL, third.HeirTTL = ttl, ttl
		first.Trace, second.Trace = "1", "2"
		mustEnter(t, enter(ls, first))
		first.Got.Grant = grant("k")
		ls.Leave(first, waitline.Answer{At: time.Now()})
		handed, waits := enter(ls, second), enter(ls, third)
		mustWait(t, handed)
		if d := ls.HandOn(first.Got.Grant); d != handoff.HandOn {
			t.Fatalf("%v", d)
		}
		mustEnter(t, handed)
		if second.Got.From != "1" || second.Got.Grant.FencingToken() != first.Got.Grant.FencingToken()+1 {
			t.Errorf("%+v", second.Got)
		}
		if h := ls.Holder(driver.HeldError{Key: "k", Holder: "o", Trace: "1"}); h.Trace != "2" {
			t.Errorf("%+v", h)
		}
		if ls.HandOn(first.Got.Grant) != handoff.Release {
			t.Error("handed on twice")
		}
		ls.Ended(first.Got.Grant) // it is another one's by now
		mustWait(t, waits)
		time.Sleep(handoff.MaxTime) // the third one gets into the store's queue
		mustEnter(t, waits)
		ls.Leave(third, refused())
		ls.Ended(second.Got.Grant)
		empty(t, ls)
	})
}

type told []driver.HeldError

func (c *told) Blocked(held driver.HeldError, _ int) { *c = append(*c, held) }

func TestCallerIsToldOfTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 100)
		first, second := waiter("k"), waiter("k")
		second.HeirTTL = ttl
		first.Trace = "1"
		mustEnter(t, enter(ls, first))
		first.Got.Grant = grant("k")
		ls.Leave(first, waitline.Answer{At: time.Now()})
		var by told
		done := make(chan error, 1)
		go func() { done <- ls.Enter(context.Background(), second, &by) }()
		synctest.Wait()
		ls.HandOn(first.Got.Grant)
		mustEnter(t, done)
		traces := []string{}
		for _, h := range by {
			traces = append(traces, h.Trace)
		}
		if !slices.Equal(traces, []string{"1"}) {
			t.Errorf("told of %q", traces)
		}
		ls.Ended(second.Got.Grant)
		empty(t, ls)
	})
}
