package waitline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/waitline"
	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

const (
	fair = circuit.FairTime
	ttl  = 10 * time.Second
)

func newLines(most, total int) *waitline.Lines {
	return waitline.New(waitline.Config{MaxWaiters: most, MaxWaitersTotal: total})
}

// inLine runs a test of lines, of which it has to leave nothing.
func inLine(t *testing.T, test func(*testing.T, *waitline.Lines)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 100)
		test(t, ls)
		empty(t, ls)
	})
}

func waiter(keys ...string) *waitline.Waiter {
	var claims []driver.Claim
	for _, k := range keys {
		claims = append(claims, driver.Exclusive(k))
	}
	w := &waitline.Waiter{Since: time.Now()}
	w.Want(claims)
	return w
}

// told notes whom a caller is told of.
type told []string

func (c *told) Blocked(held driver.HeldError, _ int) { *c = append(*c, held.Trace) }

// enter has w in line, on a goroutine of its own if it has to wait there.
func enter(ls *waitline.Lines, w *waitline.Waiter) <-chan error { return enterAs(ls, w, nil) }

func enterAs(ls *waitline.Lines, w *waitline.Waiter, by waitline.Caller) <-chan error {
	done := make(chan error, 1)
	go func() { done <- ls.Enter(context.Background(), w, by) }()
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
	check(t, ls.Len() == 0 && ls.Waiting() == 0, "%d lines with %d waiting are left", ls.Len(), ls.Waiting())
}

// A caller that gives up does not ask the store.
func TestGivesUpWithItsContext(t *testing.T) {
	inLine(t, func(t *testing.T, ls *waitline.Lines) {
		first := waiter("k")
		mustEnter(t, enter(ls, first))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := ls.Enter(ctx, waiter("k"), nil)
		check(t, errors.Is(err, driver.ErrUnavailable), "%v", err)
		ls.Leave(first, refused())
	})
}

// A request that was given up is no silence of the store: it has answered the next one since.
func TestGivenUpRequestIsNoSilence(t *testing.T) {
	inLine(t, func(t *testing.T, ls *waitline.Lines) {
		gone, next := waiter("k"), waiter("k")
		mustEnter(t, enter(ls, gone))
		waits := enter(ls, next)
		ls.Leave(gone, waitline.Answer{})
		mustEnter(t, waits)
		ls.Asks(next, time.Now())
		ls.HeldBy(next, driver.HeldError{Key: "k", Holder: "other"})
		time.Sleep(fair)
		last := waiter("k")
		last.MaxWait = 2 * fair
		var held *driver.HeldError
		err := ls.Enter(context.Background(), last, nil)
		check(t, errors.As(err, &held) && held.Holder == "other", "%v, want the holder", err)
		ls.Leave(next, refused())
	})
}

// An outage or a silence that one caller met is over for those behind, once nobody asks: the head waits
// in another line of its set.
func TestOutageEndsWhenNobodyAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		setFirst bool
		said     error
	}{
		"an outage": {said: driver.ErrUnavailable}, "a silence": {said: context.Canceled},
		"an outage, behind the set": {true, driver.ErrUnavailable}, "a silence, behind the set": {true, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, ls *waitline.Lines) {
				other, first, set := waiter("z"), waiter("k"), waiter("k", "z")
				first.Want([]driver.Claim{driver.Shared("k")})
				set.Want([]driver.Claim{driver.Shared("k"), driver.Exclusive("z")})
				mustEnter(t, enter(ls, other))
				var waits <-chan error
				if tc.setFirst {
					waits = enter(ls, set)
				}
				mustEnter(t, enter(ls, first))
				if !tc.setFirst {
					waits = enter(ls, set)
				}
				time.Sleep(2 * fair)
				ls.Leave(first, waitline.Answer{Err: tc.said, At: time.Now()})
				mustWait(t, waits)
				last := waiter("k")
				last.MaxWait = 10 * fair
				ended := enter(ls, last)
				time.Sleep(last.MaxWait - fair/2)
				ls.Leave(other, refused())
				mustEnter(t, waits)
				ls.Asks(set, time.Now())
				err := <-ended
				check(t, errors.Is(err, driver.ErrHeld), "%v, want the holder of another key", err)
				ls.Leave(set, refused())
			})
		})
	}
}

// A set that has just come to its second line has waited for the holder in the first one, unless the store
// has been silent for longer than that.
func TestGivesUpInTheSecondLine(t *testing.T) {
	for asked, want := range map[time.Duration]error{0: waitline.ErrHurried, 2 * fair: driver.ErrHeld} {
		inLine(t, func(t *testing.T, ls *waitline.Lines) {
			first, set := waiter("a"), waiter("a", "b")
			set.MaxWait = 5 * fair / 2
			mustEnter(t, enter(ls, first))
			ends := enter(ls, set)
			time.Sleep(asked)
			head := waiter("b")
			mustEnter(t, enter(ls, head))
			time.Sleep(set.MaxWait - asked - fair/4)
			ls.Leave(first, refused())
			err := <-ends
			check(t, errors.Is(err, want), "%v, want %v", err, want)
			ls.Leave(head, refused())
		})
	}
}

func TestRecordIsShared(t *testing.T) {
	inLine(t, func(t *testing.T, ls *waitline.Lines) {
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
		check(t, string(twin.Got.Record.Result) == "done", "%q", twin.Got.Record.Result)
		for _, w := range []*waitline.Waiter{first, other, late} {
			ls.Leave(w, refused())
		}
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
// streak is over. Each is told of the holder that it found, and of no later one.
func TestLeaseIsHandedOn(t *testing.T) {
	inLine(t, func(t *testing.T, ls *waitline.Lines) {
		first, second, third := waiter("k"), waiter("k"), waiter("k")
		second.HeirTTL, third.HeirTTL = ttl, ttl
		first.Trace, second.Trace = "1", "2"
		mustEnter(t, enter(ls, first))
		first.Got.Grant = grant("k")
		ls.Leave(first, waitline.Answer{At: time.Now()})
		var by told
		handed, waits := enterAs(ls, second, &by), enter(ls, third)
		mustWait(t, handed)
		if d := ls.HandOn(first.Got.Grant); d != handoff.HandOn {
			t.Fatalf("%v", d)
		}
		mustEnter(t, handed)
		check(t, slices.Equal(by, told{"1"}), "told of %q", by)
		check(t, second.Got.From == "1" && second.Got.Grant.FencingToken() == first.Got.Grant.FencingToken()+1, "%+v", second.Got)
		h := ls.Holder(driver.HeldError{Key: "k", Holder: "o", Trace: "1"})
		check(t, h.Trace == "2", "%+v", h)
		if ls.HandOn(first.Got.Grant) != handoff.Release {
			t.Error("handed on twice")
		}
		ls.Ended(first.Got.Grant) // it is another one's by now
		mustWait(t, waits)
		time.Sleep(handoff.MaxTime) // the third one gets into the store's queue
		mustEnter(t, waits)
		ls.Leave(third, refused())
		ls.Ended(second.Got.Grant)
	})
}

// Callers of many keys come, go and give up at the same time, some with sets.
func TestManyKeysAtOnce(t *testing.T) {
	ls := newLines(1000, 1000)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				keys := []string{fmt.Sprint("a", (g+i)%3), fmt.Sprint("b", i%5)}
				w := waiter(keys[:1+i%2]...)
				w.MaxWait = time.Duration(1+i%3) * time.Millisecond
				w.HeirTTL = ttl
				err := ls.Enter(context.Background(), w, nil)
				switch {
				case err != nil:
					continue
				case w.Got.Nothing():
					w.Got.Grant = grant(keys[0])
					w.Got.Grant.Owner = fmt.Sprint(g, "/", i)
					w.Got.Grant.Heritable = i%2 == 0
					if w.Waited || len(keys) > 1 {
						ls.Asks(w, time.Now())
					}
					ls.Leave(w, waitline.Answer{At: time.Now()})
				}
				if ls.HandOn(w.Got.Grant) != handoff.HandOn {
					ls.Ended(w.Got.Grant)
				}
			}
		})
	}
	all.Wait()
	empty(t, ls)
}
