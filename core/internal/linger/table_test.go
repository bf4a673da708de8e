package linger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/linger"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 30 * time.Second

// store answers renewals.
type store struct {
	driver.Store
	mu   sync.Mutex
	lost map[string]bool // owners
}

func (s *store) Renew(_ context.Context, grants []driver.Grant) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(grants))
	for i, g := range grants {
		if s.lost[g.Owner] {
			errs[i] = &driver.LeaseLostError{Key: g.Claims[0].Key, Reason: driver.LossForced, Detail: "a test"}
		}
	}
	return errs
}

// loses makes owner's next renewal a loss.
func (s *store) loses(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[owner] = true
}

// scene is a table with what has ended by itself.
// most is how many may linger.
const most = 3

type scene struct {
	t     *testing.T
	table *linger.Table
	store *store
	mu    sync.Mutex
	over  []linger.Left
}

func inBubble(t *testing.T, test func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, store: &store{lost: map[string]bool{}}}
		dog := watchdog.New(watchdog.Config{
			Store: s.store, Answered: func([]driver.Claim, error) {}, Parts: func([]driver.Claim) string { return "" },
		})
		defer dog.Close()
		s.table = linger.New(dog, most, func(l linger.Left) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.over = append(s.over, l)
		})
		test(s)
	})
}

func (s *scene) grant(key, owner string) handoff.Grant {
	now := time.Now()
	return handoff.Grant{
		Grant: driver.Grant{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl, Token: 7, HandOffs: 9, Since: now, Lingers: true},
		Heard: now, Origin: &handoff.Origin{Granted: now, Epoch: s.table.Epoch()},
	}
}

func (s *scene) keep(g handoff.Grant, d time.Duration, want bool) *linger.Lease {
	s.t.Helper()
	kept, ok := s.table.Keep(g, "rule", time.Now(), d)
	if ok != want {
		s.t.Errorf("kept: %t, want %t", ok, want)
	}
	return kept
}

func (s *scene) ended() []linger.Left {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func TestTake(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.keep(s.grant("k", "o"), time.Minute, true)
		if _, ok := s.table.Take("other"); ok || !s.table.Any() {
			t.Error("another key's lease was taken")
		}
		time.Sleep(ttl) // it was renewed meanwhile
		l, ok := s.table.Take("k")
		if !ok || l.Over || l.Lost != nil || l.Rule != "rule" || time.Since(l.Began) != ttl || time.Since(l.Grant.Since) > ttl/3 {
			t.Errorf("%+v", l)
		}
		if _, again := s.table.Take("k"); again || s.table.Any() {
			t.Error("it was taken twice")
		}
		time.Sleep(time.Hour)
		if over := s.ended(); over != nil {
			t.Errorf("ended afterwards: %+v", over)
		}
	})
}

func TestEndsByItself(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.keep(s.grant("k", "o"), time.Minute, true)
		time.Sleep(time.Minute)
		if over := s.ended(); len(over) != 1 || !over[0].Over || over[0].Lost != nil || over[0].Grant.Owner != "o" || s.table.Any() {
			t.Errorf("when its time is over: %+v", over)
		}
		s.keep(s.grant("k", "p"), time.Hour, true)
		s.store.loses("p")
		time.Sleep(ttl / 3)
		var lost *driver.LeaseLostError
		if over := s.ended(); len(over) != 2 || over[1].Over || !errors.As(over[1].Lost, &lost) || lost.Detail != "a test" || lost.Token != 7 {
			t.Errorf("when it is lost: %+v", over)
		}
		late := s.grant("k", "q")
		late.Since = time.Now().Add(-ttl)
		s.keep(late, time.Hour, false)
	})
}

func TestWanted(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.keep(s.grant("k", "o"), time.Minute, true)
		if _, ok := s.table.Want("k", "another"); ok {
			t.Error("another's lease is not there")
		}
		if l, ok := s.table.Want("k", "o"); !ok || l.Grant.Owner != "o" {
			t.Errorf("%+v", l)
		}
		s.keep(s.grant("k", "another"), time.Minute, false) // it was wanted while it was in use
		s.keep(s.grant("k", "another"), time.Minute, true)  // once
		s.table.Take("k")
		s.table.Want("k", "done")
		s.table.Forget("k", "done")
		s.keep(s.grant("k", "done"), time.Minute, true)
	})
}

// What is remembered of leases that are wanted is bounded.
func TestWantedIsBounded(t *testing.T) {
	inBubble(t, func(s *scene) {
		for i := range 200 {
			s.table.Want("k", fmt.Sprint(i))
		}
		s.keep(s.grant("k", "0"), time.Minute, true)
		s.table.Take("k")
		s.keep(s.grant("k", "199"), time.Minute, false)
	})
}

func TestMissed(t *testing.T) {
	inBubble(t, func(s *scene) {
		inUse := s.grant("used", "u")
		s.keep(s.grant("k", "o"), time.Minute, true)
		if keys := s.table.Missed(); len(keys) != 1 || keys[0] != "k" {
			t.Errorf("%q", keys)
		}
		if l, ok := s.table.Stale("k"); !ok || l.Grant.Owner != "o" {
			t.Errorf("%+v", l)
		}
		s.keep(inUse, time.Minute, false)
		s.keep(s.grant("k", "new"), time.Minute, true)
		if _, ok := s.table.Stale("k"); ok {
			t.Error("a lease of this epoch is stale")
		}
	})
}

func TestWithdraw(t *testing.T) {
	inBubble(t, func(s *scene) {
		first := s.keep(s.grant("k", "o"), time.Minute, true)
		s.table.Take("k")
		second := s.keep(s.grant("k", "o"), time.Minute, true)
		if s.table.Withdraw(first) || !s.table.Withdraw(second) || s.table.Any() {
			t.Error("not the one that was kept")
		}
	})
}

func TestClose(t *testing.T) {
	inBubble(t, func(s *scene) {
		s.keep(s.grant("k", "o"), time.Minute, true)
		s.keep(s.grant("l", "p"), time.Minute, true)
		if all := s.table.Close(); len(all) != 2 || s.table.Any() {
			t.Errorf("%+v", all)
		}
		s.keep(s.grant("m", "q"), time.Minute, false)
	})
}
