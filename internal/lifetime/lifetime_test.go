package lifetime_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/lifetime"
)

var must, wantNil, wantIs = checktest.Must, checktest.WantNil, checktest.WantIs

func TestCloseWaitsForCallsAndGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifetime.Lifetime
		must(t, l.Enter())
		l.Go(func() { time.Sleep(2 * time.Second) })
		time.AfterFunc(time.Second, l.Leave)
		start := time.Now()
		if err := l.Close(func() error { return l.Drain("a store", nil) }); err != nil {
			t.Errorf("Close = %v; everything had ended", err)
		}
		if waited := time.Since(start); waited != 2*time.Second {
			t.Errorf("Close returned after %v, the last goroutine ended after 2s", waited)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifetime.Lifetime
		must(t, l.Enter())
		start := time.Now()
		var ended bool
		err := l.Close(func() error { return l.Drain("a store", func() { ended = true }) })
		if err == nil || time.Since(start) != 5*time.Second {
			t.Errorf("Close = %v after %v, want an error after 5s", err, time.Since(start))
		}
		if ended {
			t.Error("the last function ran while a call was under way")
		}
		l.Leave()
		synctest.Wait()
		if !ended {
			t.Error("the last function did not run after the last call")
		}
	})
}

func TestNoCallEntersAfterClose(t *testing.T) {
	var l lifetime.Lifetime
	_ = l.Close(func() error {
		wantIs(t, "Enter while the store closes", l.Enter(), driver.ErrClosed)
		return nil
	})
	wantIs(t, "Enter", l.Enter(), driver.ErrClosed)
}

func TestSecondCloseWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifetime.Lifetime
		ended := errors.New("ended")
		start := time.Now()
		var closers sync.WaitGroup
		for range 2 {
			closers.Go(func() {
				err := l.Close(func() error { time.Sleep(time.Second); return ended })
				if !errors.Is(err, ended) || time.Since(start) != time.Second {
					t.Errorf("Close = %v after %v, want the first one's error, after 1s", err, time.Since(start))
				}
			})
		}
		closers.Wait()
	})
}

// A store is made although its server is away, within a bound, and asks again until it answers.
func TestOpen(t *testing.T) {
	broken := errors.New("no tables")
	for _, answer := range []error{nil, broken} {
		synctest.Test(t, func(t *testing.T) {
			var l lifetime.Lifetime
			life, end := context.WithCancel(context.Background())
			asked, told := 0, error(nil)
			look := func(ctx context.Context) error {
				if asked++; asked > 3 {
					return cmp.Or(ctx.Err(), answer)
				}
				if asked == 1 {
					<-ctx.Done()
				}
				return &driver.UnavailableError{Op: "open", Err: errors.New("refused")}
			}
			start := time.Now()
			starting, started := context.WithCancel(context.Background())
			if err := l.Open(starting, life, look, func(err error) { told = err }); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			started() // the program's start has a context of its own
			time.Sleep(time.Minute)
			synctest.Wait()
			if asked != 4 || told != answer {
				t.Errorf("asked %d times, told %v", asked, told)
			}
			end()
			wantNil(t, l.Close(func() error { return l.Drain("a store", nil) }))
		})
	}
	synctest.Test(t, func(t *testing.T) { // what a server answers is the error, at once
		var l lifetime.Lifetime
		refused := &driver.UnavailableError{Op: "open", Err: broken, Refused: true}
		if err := l.Open(context.Background(), context.Background(), func(context.Context) error { return refused }, nil); err != refused {
			t.Error(err)
		}
	})
	for _, meanwhile := range []bool{false, true} { // Close ends the questions, and nobody is told what it broke off
		synctest.Test(t, func(t *testing.T) {
			var l lifetime.Lifetime
			life, end := context.WithCancel(context.Background())
			asked := 0
			wantNil(t, l.Open(context.Background(), life, func(context.Context) error {
				if asked++; asked == 1 {
					return &driver.UnavailableError{Op: "open", Err: broken}
				}
				end()
				return broken
			}, func(err error) { t.Errorf("told %v", err) }))
			if !meanwhile {
				end()
			}
			time.Sleep(time.Minute)
			wantNil(t, l.Close(func() error { return l.Drain("a store", nil) }))
			if (asked == 2) != meanwhile {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}
