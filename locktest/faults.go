package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

type fault int

const (
	healthy fault = iota
	refusing
	hanging
	losingAnswers
)

var (
	errRefused = errors.New("locktest: the store refuses")
	errHung    = errors.New("locktest: the store does not answer")
	errAnswer  = errors.New("locktest: the answer is lost")
)

// Refuse begins an outage that shows at once, as if nobody listened at the server's port.
// Callers that wait for a key get the error, too. In this outage, and in that of [Store.Hang],
// the engine may miss that a lease is wanted, so none lingers any more (core.WithLinger).
func (s *Store) Refuse() {
	s.set(refusing)
	s.mu.Lock()
	for cut := range s.waits {
		(*cut)(errRefused)
	}
	s.mu.Unlock()
	s.deafen()
}

// deafen tells the engine that it may miss messages.
func (s *Store) deafen() {
	s.mu.Lock()
	missed := s.wanted
	s.mu.Unlock()
	if missed != nil {
		missed("", "")
	}
}

// Hang begins an outage that shows by silence: each request waits until its context ends, or
// until [Store.Heal].
func (s *Store) Hang() {
	s.set(hanging)
	s.deafen()
}

// LoseAnswers makes the store carry out requests and lose their answers. Nobody knows of a
// lease that is granted this way, so its key is held until its TTL is over.
func (s *Store) LoseAnswers() { s.set(losingAnswers) }

// Heal ends outages and delays. Requests that hang go on.
func (s *Store) Heal() {
	s.Delay(0)
	s.set(healthy)
}

// Delay makes every request take that much longer. It can be combined with the faults.
func (s *Store) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Lose takes key from the holders that got it through this store's engine, as if an operator
// deleted it. The key is free for others at once. A holder learns of the loss at its next
// renewal, within a third of the TTL. Other keys of the same set stay locked until its release.
// Lose reports false if nobody held the key.
func (s *Store) Lose(key string) bool {
	ctx := context.Background()
	info, err := s.mem.Inspect(ctx, key)
	lost := false
	for _, h := range info.Holders {
		g := driver.Grant{Owner: h.Owner, Claims: []driver.Claim{{Key: key}}, Token: h.Token}
		if s.isGranted(h.Owner) && s.mem.Release(ctx, g) == nil {
			lost = true
		}
	}
	return err == nil && lost
}

func (s *Store) set(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns a context that [Store.Refuse] ends as well.
func (s *Store) wait(ctx context.Context) (_ context.Context, done func()) {
	ctx, cut := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[&cut] = struct{}{}
	if s.fault == refusing { // the fault began after the request was sent
		cut(errRefused)
	}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waits, &cut)
		cut(nil)
	}
}

// exchange carries out a request, with the faults on its way there and on its answer's way
// back.
func (s *Store) exchange(ctx context.Context, op string, carryOut func() error) error {
	if err := s.there(ctx, op); err != nil {
		return err
	}
	said := carryOut()
	if err := s.back(ctx, op); err != nil {
		return err
	}
	return said
}

// there applies the faults to a request on its way to the store.
func (s *Store) there(ctx context.Context, op string) error {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return &driver.UnavailableError{Op: op, Err: errHung}
		}
	}
	_, err := s.pass(ctx, op)
	return err
}

// back applies the faults to an answer on its way back.
func (s *Store) back(ctx context.Context, op string) error {
	f, err := s.pass(ctx, op)
	if f == losingAnswers {
		return &driver.UnavailableError{Op: op, Err: errAnswer}
	}
	return err
}

// pass returns at once unless the store is out, and waits while it hangs. It returns the
// present fault.
func (s *Store) pass(ctx context.Context, op string) (fault, error) {
	for {
		s.mu.Lock()
		f, changed := s.fault, s.changed
		s.mu.Unlock()
		switch f {
		case refusing:
			return f, &driver.UnavailableError{Op: op, Err: errRefused}
		case hanging:
			select {
			case <-changed:
			case <-ctx.Done():
				return f, &driver.UnavailableError{Op: op, Err: errHung}
			}
		default:
			return f, nil
		}
	}
}
