package waitline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/waitline"
)

func TestGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 100)
		first := waiter("k")
		mustEnter(t, enter(ls, first))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := ls.Enter(ctx, waiter("k"), nil); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		ls.Leave(first, refused())
		empty(t, ls)
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(3, 3)
		full := func(key, want string, limit int) {
			t.Helper()
			var err *waitline.FullError
			if !errors.As(ls.Enter(context.Background(), waiter(key), nil), &err) || *err != (waitline.FullError{Key: want, Limit: limit}) {
				t.Errorf("%v", err)
			}
		}
		for _, key := range []string{"a", "a", "a", "b", "b"} { // 3 wait
			enter(ls, waiter(key))
		}
		full("a", "a", 3)
		full("b", "", 3)
		if ls.Waiting() != 3 {
			t.Errorf("%d wait", ls.Waiting())
		}
		c := waiter("c")
		mustEnter(t, enter(ls, c)) // there is nobody in front of it
		ls.Close()
		if err := ls.Enter(context.Background(), waiter("d"), nil); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// The cap on all waiters does not refuse a caller that finds nobody in line, although it
// has to wait for the holder's hand-off.
func TestTotalDoesNotRefuseTheFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLines(100, 0)
		holder, next := waiter("k"), waiter("k")
		mustEnter(t, enter(ls, holder))
		holder.Got.Grant = grant("k")
		ls.Leave(holder, waitline.Answer{At: time.Now()})
		waits := enter(ls, next)
		mustWait(t, waits)
		var full *waitline.FullError
		if err := ls.Enter(context.Background(), waiter("k"), nil); !errors.As(err, &full) {
			t.Errorf("the second in line: %v", err)
		}
		ls.Ended(holder.Got.Grant)
		mustEnter(t, waits)
		ls.Leave(next, refused())
		empty(t, ls)
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
