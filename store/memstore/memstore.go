package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Store implements [core.Store] and [core.Ledger] for exclusive claims. Make
// one with [New]; it is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	keys    map[string]*entry
	records map[string]record
	last    uint64 // the greatest token given so far
	sweepAt int    // number of keys and records that calls for a sweep
	closed  chan struct{}
}

var (
	_ core.Store  = (*Store)(nil)
	_ core.Ledger = (*Store)(nil)
)

// entry is a key that is held or waited for.
type entry struct {
	holder  holder
	waiters []*waiter // in order of arrival
}

// holder is who has the key; the zero holder is nobody.
type holder struct {
	owner   string
	token   uint64
	expires time.Time
}

func (h holder) in(now time.Time) bool { return h.owner != "" && now.Before(h.expires) }

// waiter is one waiting request.
type waiter struct {
	req  core.Request
	once bool // a record will do as well as the lease
	done chan answer
}

// answer is what a request gets: a grant or a record.
type answer struct {
	grant core.Grant
	rec   *core.Record
}

const sweepFloor = 1024

// New makes an empty store.
func New() *Store {
	return &Store{
		keys:    make(map[string]*entry),
		records: make(map[string]record),
		sweepAt: sweepFloor,
		closed:  make(chan struct{}),
	}
}

// Acquire implements [core.Store].
func (s *Store) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	a, err := s.acquire(ctx, req, false)
	return a.grant, err
}

func (s *Store) acquire(ctx context.Context, req core.Request, once bool) (answer, error) {
	key, err := onlyKey(req.Claims)
	if err != nil {
		return answer{}, err
	}
	w := &waiter{req: req, once: once, done: make(chan answer, 1)}
	expires, err := s.ask(key, w)
	if err != nil || len(w.done) > 0 {
		return take(w, err)
	}
	timer := time.NewTimer(time.Until(expires))
	defer timer.Stop()
	for {
		select {
		case a := <-w.done:
			return a, nil
		case <-s.closed:
			return answer{}, core.ErrClosed
		case <-ctx.Done():
			return take(w, s.leave(key, w))
		case <-timer.C:
			timer.Reset(time.Until(s.expire(key)))
		}
	}
}

// take returns the answer that came to w, or err if there is none.
func take(w *waiter, err error) (answer, error) {
	select {
	case a := <-w.done:
		return a, nil
	default:
		return answer{}, err
	}
}

// onlyKey refuses what this store can't do, as the engine does before it gets
// here.
func onlyKey(claims []core.Claim) (string, error) {
	if len(claims) != 1 || claims[0].Mode != core.ModeExclusive {
		return "", &core.UnsupportedError{Feature: "anything but one exclusive claim"}
	}
	return claims[0].Key, nil
}

// ask answers w at once, or puts it in line and says when the holder's lease
// ends, or refuses it if it does not want to wait.
func (s *Store) ask(key string, w *waiter) (time.Time, error) {
	s.mu.Lock()
	held, expires, err := s.askLocked(key, w)
	s.mu.Unlock()
	if held != nil && err == nil && w.req.OnHeld != nil {
		w.req.OnHeld(*held)
	}
	return expires, err
}

func (s *Store) askLocked(key string, w *waiter) (*core.HeldError, time.Time, error) {
	if s.isClosed() {
		return nil, time.Time{}, core.ErrClosed
	}
	now := time.Now()
	if w.once {
		if rec := s.record(key, now); rec != nil {
			w.done <- answer{rec: rec}
			return nil, time.Time{}, nil
		}
	}
	e := s.keys[key]
	if e == nil {
		s.sweep(now)
		e = &entry{}
		s.keys[key] = e
	}
	if e.holder.in(now) && e.holder.owner == w.req.Owner {
		s.grant(e, w, now, e.holder.token)
		return nil, time.Time{}, nil
	}
	e.waiters = append(e.waiters, w)
	s.serve(key, e, now)
	if len(w.done) > 0 {
		return nil, time.Time{}, nil
	}
	held := &core.HeldError{Key: key, Holder: e.holder.owner, RetryAfter: e.holder.expires.Sub(now)}
	if !w.req.Wait {
		e.waiters = e.waiters[:len(e.waiters)-1]
		return nil, time.Time{}, held
	}
	return held, e.holder.expires, nil
}

// serve gives the key, if it is free, to the first in line, and a record to
// those before it who are content with one. A key that nobody wants is
// forgotten.
func (s *Store) serve(key string, e *entry, now time.Time) {
	for !e.holder.in(now) && len(e.waiters) > 0 {
		w := e.waiters[0]
		e.waiters[0] = nil
		e.waiters = e.waiters[1:]
		if w.once {
			if rec := s.record(key, now); rec != nil {
				w.done <- answer{rec: rec}
				continue
			}
		}
		s.grant(e, w, now, s.nextToken(now))
	}
	if !e.holder.in(now) && len(e.waiters) == 0 {
		delete(s.keys, key)
	}
}

func (s *Store) grant(e *entry, w *waiter, now time.Time, token uint64) {
	e.holder = holder{owner: w.req.Owner, token: token, expires: now.Add(w.req.TTL)}
	w.done <- answer{grant: core.Grant{
		Owner: w.req.Owner, Claims: w.req.Claims, TTL: w.req.TTL, Token: token, Since: now,
	}}
}

// nextToken rises with the clock, as a store's does that can lose its data, so
// that tokens of an earlier process are behind those of this one.
func (s *Store) nextToken(now time.Time) uint64 {
	s.last = max(s.last+1, uint64(now.UnixMicro()))
	return s.last
}

// expire serves the line if the holder's time is over, and says when the
// present holder's will be.
func (s *Store) expire(key string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := s.keys[key], time.Now()
	if e == nil {
		return now
	}
	s.serve(key, e, now)
	return e.holder.expires
}

// leave takes w out of the line and says who holds the key.
func (s *Store) leave(key string, w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil {
		return &core.HeldError{Key: key}
	}
	for i, other := range e.waiters {
		if other == w {
			e.waiters = append(e.waiters[:i], e.waiters[i+1:]...)
			break
		}
	}
	return &core.HeldError{Key: key, Holder: e.holder.owner, RetryAfter: time.Until(e.holder.expires)}
}

// Renew implements [core.Store].
func (s *Store) Renew(_ context.Context, grants []core.Grant) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	errs := make([]error, len(grants))
	for i, g := range grants {
		e := s.owned(g, now)
		if e == nil {
			errs[i] = lost(g)
			continue
		}
		e.holder.expires = now.Add(g.TTL)
	}
	return errs
}

// Release implements [core.Store].
func (s *Store) Release(_ context.Context, g core.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.release(g, time.Now())
}

func (s *Store) release(g core.Grant, now time.Time) error {
	e := s.owned(g, now)
	if e == nil {
		return lost(g)
	}
	e.holder = holder{}
	s.serve(g.Claims[0].Key, e, now)
	return nil
}

// owned returns the entry that g still holds, or nil.
func (s *Store) owned(g core.Grant, now time.Time) *entry {
	if len(g.Claims) != 1 {
		return nil
	}
	e := s.keys[g.Claims[0].Key]
	if e == nil || !e.holder.in(now) || e.holder.owner != g.Owner {
		return nil
	}
	return e
}

func lost(g core.Grant) error {
	return &core.LeaseLostError{Key: g.Claims[0].Key, Token: g.Token, Reason: core.LossTaken}
}

// Close implements [core.Store]: waiters get ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.closed)
	}
	return nil
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// sweep drops what has expired once there is twice as much as after the last
// sweep, so that its cost per new key stays constant.
func (s *Store) sweep(now time.Time) {
	if len(s.keys)+len(s.records) < s.sweepAt {
		return
	}
	for key, e := range s.keys {
		if !e.holder.in(now) && len(e.waiters) == 0 {
			delete(s.keys, key)
		}
	}
	for key, r := range s.records {
		if !now.Before(r.expires) {
			delete(s.records, key)
		}
	}
	s.sweepAt = max(sweepFloor, 2*(len(s.keys)+len(s.records)))
}
