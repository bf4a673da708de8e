package memstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// waiter stands for a request in a queue. It is the Ref of the member there.
type waiter struct {
	store  *Store
	req    driver.Request
	asking int           // how many calls wait with it: an owner may ask more than once
	done   chan struct{} // closed when it is its turn, or when there is a record

	answer answer // from then on; a set has none: it asks again
}

// answer is the answer to a request: a grant or a record. The zero value is none.
type answer struct {
	driver.Grant
	rec *driver.Record // must not be changed
}

func (a *answer) isNone() bool { return a.Token == 0 && a.rec == nil }

func granted(req *driver.Request, m *keystate.Member, contended bool, now time.Time) answer {
	return answer{Grant: driver.Grant{
		Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: m.Token, HandOffs: m.Reserved,
		Lingers: m.Lingers(), Since: now, Contended: contended,
	}}
}

// wake answers those that a step has let in.
func wake(st *keystate.State) {
	for _, n := range st.Woken {
		w := n.Ref.(*waiter)
		n.Ref = w.store
		switch {
		case n.Waits:
			w.answer = answer{rec: &n.Key.Record.Record}
		case len(w.req.Claims) == 1:
			w.answer = granted(&w.req, n.Member, n.Key.Waiting() > 0, st.Now)
		}
		close(w.done)
	}
}

// ask asks once. If the request has to wait, the returned waiter stands for it, and the error says who is
// in the way. was is what it waited with so far.
func (s *Store) ask(r *keystate.Request, was *waiter) (answer, *waiter, error) {
	st := keystate.State{Now: time.Now()}
	set := s.mem.begin(&st, r.Claims)
	ans, w, err := s.decide(&st, r, was)
	s.mem.end(set, &st)
	tell(st.Wanted)
	return ans, w, err
}

func (s *Store) decide(st *keystate.State, r *keystate.Request, was *waiter) (answer, *waiter, error) {
	if was != nil {
		_ = st.Settle() // it fails only in a store that reads its waiters late
		wake(st)
		st.Woken = st.Woken[:0]
		if !was.answer.isNone() {
			return was.answer, nil, nil
		}
		if was.asking--; !r.Wait && was.asking > 0 {
			return answer{}, nil, st.Held(st.Keys[0]) // another call of the owner stays in the queue
		}
	}
	a, err := st.Acquire(r)
	switch {
	case err != nil:
		return answer{}, nil, err
	case a.Record != nil:
		return answer{rec: &a.Record.Record}, nil, nil
	case a.Held == nil:
		a.Member.Ref = s
		return granted(&r.Request, a.Member, a.Contended, st.Now), nil, nil
	case a.Member == nil:
		return answer{}, nil, a.Held
	}
	w, ok := a.Member.Ref.(*waiter)
	if !ok {
		w = &waiter{store: s, req: r.Request, done: make(chan struct{})}
		a.Member.Ref = w
	}
	w.asking++
	return answer{}, w, a.Held
}

// wait asks again when its turn has come, until the request has an answer or ends. held is who was in the
// way.
func (s *Store) wait(ctx context.Context, r *keystate.Request, w *waiter, held error) (answer, error) {
	var extend <-chan time.Time
	if len(r.Claims) > 1 { // what a set holds must not run out while it waits for the rest
		extend = time.Tick(max(r.TTL/3, time.Millisecond))
	}
	for told := ""; ; {
		if h, ok := held.(*driver.HeldError); ok && h.Key != told {
			if told = h.Key; r.OnHeld != nil {
				r.OnHeld(*h)
			}
		}
		var ended error
		select {
		case <-w.done:
			if !w.answer.isNone() {
				return w.answer, nil
			}
		case <-extend:
		case <-ctx.Done():
			r.Wait = false
		case <-s.life.Done():
			r.Wait, ended = false, driver.ErrClosed
		}
		a, next, err := s.ask(r, w)
		switch {
		case err != nil && ended != nil:
			return answer{}, ended
		case next == nil:
			return a, err
		}
		w, held = next, err
	}
}
