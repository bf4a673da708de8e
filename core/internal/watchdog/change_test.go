package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// While a change is unanswered there is no other request, and a release waits for
// neither.
func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, most := 0, 0
		var mu sync.Mutex
		s := &store{answer: func(ctx context.Context, _ driver.Grant) error {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			under--
			mu.Unlock()
			return errSilent
		}}
		d := newDog(t, s, nil)
		h := watch(t, d, "k", 30*time.Second)
		time.Sleep(9 * time.Second)
		var changes sync.WaitGroup
		for range 3 {
			changes.Go(func() { _, _ = h.watch.Extend(t.Context(), time.Minute) })
		}
		time.Sleep(15 * time.Second)
		mu.Lock()
		if _, n := s.renewed(); most != 1 || n < 2 {
			t.Errorf("%d requests under way at a time, of %d", most, n)
		}
		mu.Unlock()
		before := time.Now()
		if _, err := h.watch.Release(errSilent); err != nil || time.Since(before) > 0 {
			t.Errorf("release: %v after %v", err, time.Since(before))
		}
		changes.Wait()
		if h.watch.Err() != errSilent {
			t.Errorf("ended with %v", h.watch.Err())
		}
	})
}

// An unanswered downgrade is repeated in place of renewals until it is answered.
func TestDowngradeIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		d := newDog(t, s, nil)
		h := watch(t, d, "k", 30*time.Second)
		s.said = errSilent
		shared := []driver.Claim{driver.Shared("k")}
		if sent, err := h.watch.Downgrade(t.Context(), shared); !sent || err != errSilent {
			t.Errorf("sent %v, %v", sent, err)
		}
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		n := len(s.downgrades)
		s.said = nil
		s.mu.Unlock()
		if _, renewals := s.renewed(); n < 3 || renewals != 0 {
			t.Errorf("%d downgrades, %d renewals", n, renewals)
		}
		time.Sleep(20 * time.Second)
		s.mu.Lock()
		again := len(s.downgrades)
		s.mu.Unlock()
		if _, renewals := s.renewed(); again != n+1 || renewals == 0 {
			t.Errorf("%d more downgrades, %d renewals", again-n, renewals)
		}
		if g, _ := h.watch.Grant(); g.Claims[0].Mode != driver.ModeShared || h.watch.Err() != nil {
			t.Errorf("%v, %v", g.Claims, h.watch.Err())
		}
	})
}

// A request that panics leaves the lease to the watchdog, as an unanswered one does.
func TestStorePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{answer: func(context.Context, driver.Grant) error { panic("store") }}
		d := newDog(t, s, nil)
		h := watch(t, d, "k", 30*time.Second)
		func() {
			defer func() { _ = recover() }()
			_, _ = h.watch.Extend(t.Context(), time.Minute)
		}()
		s.mu.Lock()
		s.answer = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.watch.Err(); err != nil || h.renewals == 0 {
			t.Errorf("%v after %d renewals", err, h.renewals)
		}
	})
}
