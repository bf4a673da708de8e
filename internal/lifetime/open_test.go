package lifetime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lifetime"
)

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
					return answer
				}
				if asked == 1 {
					<-ctx.Done()
				}
				return &driver.UnavailableError{Op: "open", Err: errors.New("refused")}
			}
			start := time.Now()
			if err := l.Open(context.Background(), life, look, func(err error) { told = err }); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if asked != 4 || told != answer {
				t.Errorf("asked %d times, told %v", asked, told)
			}
			end()
			if err := l.Close(func() error { return l.Drain("a store", nil) }); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // what a server answers is the error, at once
		var l lifetime.Lifetime
		refused := &driver.UnavailableError{Op: "open", Err: broken, Refused: true}
		if err := l.Open(context.Background(), context.Background(), func(context.Context) error { return refused }, nil); err != refused {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // Close ends the questions
		var l lifetime.Lifetime
		life, end := context.WithCancel(context.Background())
		down := &driver.UnavailableError{Op: "open", Err: broken}
		if err := l.Open(context.Background(), life, func(context.Context) error { return down }, nil); err != nil {
			t.Error(err)
		}
		end()
		if err := l.Close(func() error { return l.Drain("a store", nil) }); err != nil {
			t.Error(err)
		}
	})
}
