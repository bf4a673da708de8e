package waitloop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

func start(f func()) { go f() }

func TestAwait(t *testing.T) {
	errOp := errors.New("op")
	late := func() { t.Error("late was called although the answer was in time") }
	err, answered := waitloop.Await(t.Context(), start, func() error { return errOp }, late)
	check(t, errors.Is(err, errOp) && answered, "got %v, %v", err, answered)
}

// The caller goes first. What op leaves behind is for late, which must not come before.
func TestAwaitAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var done, tidied time.Time
		op := func() error {
			time.Sleep(time.Minute)
			done = time.Now()
			return nil
		}
		began := time.Now()
		_, answered := waitloop.Await(ctx, start, op, func() { tidied = time.Now() })
		check(t, !answered && time.Since(began) == time.Second, "answered %v after %v", answered, time.Since(began))
		time.Sleep(time.Minute)
		synctest.Wait()
		check(t, !done.IsZero() && !tidied.Before(done), "op ended at %v, late was called at %v", done, tidied)
	})
}

func TestInsist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		until := func(n int) func() bool {
			tries = 0
			return func() bool {
				tries++
				return tries == n
			}
		}
		began := time.Now()
		check(t, waitloop.Insist(t.Context(), began.Add(time.Hour), until(3)) && tries == 3 && time.Since(began) == 30*time.Millisecond, "success ended it after %d tries and %v", tries, time.Since(began))
		began = time.Now()
		check(t, waitloop.Insist(t.Context(), began.Add(10*time.Second), until(-1)) && time.Since(began) <= 11*time.Second && tries <= 20, "its time ended it after %d tries and %v", tries, time.Since(began))
		life, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		check(t, !waitloop.Insist(life, time.Now().Add(time.Hour), until(-1)), "the end of the store counts as success")
	})
}

func TestBell(t *testing.T) {
	b := waitloop.NewBell()
	b.Ring()
	b.Ring()
	<-b
	select {
	case <-b:
		t.Error("rung twice, heard twice")
	default:
	}
	b.Ring()
	b.Clear()
	b.Clear()
	select {
	case <-b:
		t.Error("heard after Clear")
	default:
	}
	var none waitloop.Bell
	none.Ring()
	none.Clear()
}
