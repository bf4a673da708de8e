package lifetime_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lifetime"
)

func TestCloseWaitsForCallsAndGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifetime.Lifetime
		if err := l.Enter(); err != nil {
			t.Fatal(err)
		}
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
		if err := l.Enter(); err != nil {
			t.Fatal(err)
		}
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
		if err := l.Enter(); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Enter while the store closes = %v, want ErrClosed", err)
		}
		return nil
	})
	if err := l.Enter(); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Enter = %v, want ErrClosed", err)
	}
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
