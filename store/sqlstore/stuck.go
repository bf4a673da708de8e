package sqlstore

import (
	"context"
	"sync"
	"time"
)

// stuck knows the keys whose rows another transaction keeps locked: an administrator's, or that of a
// process that was stopped. Requests for such a key take turns, and all such keys share one slot, so
// they leave the connections to the other keys.
type stuck struct {
	slot chan struct{}

	mu    sync.Mutex
	byKey map[string]*stuckKey
}

// stuckKey is one of them.
type stuckKey struct {
	turn  chan struct{}
	freed chan struct{} // closed when an attempt has succeeded
	tried time.Time     // the last attempt
}

// forgetStuck is after what time without an attempt a key is no longer known as stuck.
const forgetStuck = time.Minute

func newStuck() *stuck {
	return &stuck{slot: make(chan struct{}, 1), byKey: make(map[string]*stuckKey)}
}

// turns are those of stuck keys that a request has taken.
type turns []chan struct{}

func (t turns) leave() {
	for _, turn := range t {
		<-turn
	}
}

// enter waits for the turns of those keys that are stuck. The caller leaves them afterwards.
func (s *stuck) enter(ctx context.Context, keys []string) (taken turns, ok bool) {
	take := func(turn, freed chan struct{}) bool {
		select {
		case turn <- struct{}{}:
			taken = append(taken, turn)
		case <-freed:
		case <-ctx.Done():
			return false
		}
		return true
	}
	for _, k := range s.among(keys) { // in the order of the keys, so two requests don't deadlock
		if !take(k.turn, k.freed) {
			taken.leave()
			return nil, false
		}
	}
	if len(taken) > 0 && !take(s.slot, nil) {
		taken.leave()
		return nil, false
	}
	return taken, true
}

// among returns those of keys that are stuck.
func (s *stuck) among(keys []string) (some []*stuckKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byKey) == 0 {
		return nil
	}
	for _, key := range keys {
		if k := s.byKey[key]; k != nil {
			some = append(some, k)
		}
	}
	return some
}

// learn notes what came of an attempt at keys. Which of several is stuck, nobody says.
func (s *stuck) learn(keys []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isLocked(err):
		s.note(keys)
	case err == nil || isOurs(err):
		for _, key := range keys {
			if k := s.byKey[key]; k != nil {
				delete(s.byKey, key)
				close(k.freed)
			}
		}
	}
}

// note needs mu.
func (s *stuck) note(keys []string) {
	now := time.Now()
	for key, k := range s.byKey {
		if now.Sub(k.tried) > forgetStuck && len(k.turn) == 0 {
			delete(s.byKey, key)
			close(k.freed)
		}
	}
	for _, key := range keys {
		if s.byKey[key] == nil {
			s.byKey[key] = &stuckKey{turn: make(chan struct{}, 1), freed: make(chan struct{})}
		}
		s.byKey[key].tried = now
	}
}
