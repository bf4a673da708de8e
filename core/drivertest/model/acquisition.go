package model

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// acquisition is one owner's request and its result.
type acquisition struct {
	owner  string
	store  driver.Store
	once   bool
	claims []driver.Claim // in their present modes
	ttl    time.Duration  // that the owner asked for last
	record *record        // that the owner completes with; nil: it has not tried
	cancel context.CancelFunc
	told   chan struct{} // closed when the store says that it has to wait
	done   chan struct{} // closed when said is set
	said   answer

	kind    kind // when the run last looked
	counted bool // its token has been compared
}

// ask starts an acquisition, and returns when it has been told to wait or has an
// answer.
func (r *run) ask(s Step) *acquisition {
	ctx, cancel := context.WithCancel(r.ctx)
	n := len(r.asked)
	a := &acquisition{
		// In the engine's format, because a store may rely on it.
		owner: driver.Owner{Host: fmt.Sprintf("owner-%d", n+1), PID: 1, Instance: 1, Start: time.Unix(0, 0), ID: fmt.Sprintf("%032x", n+1)}.String(),
		store: r.Stores[n%len(r.Stores)], once: s.once, claims: s.claims, ttl: s.ttl, cancel: cancel,
		told: make(chan struct{}), done: make(chan struct{}),
	}
	var once sync.Once
	req := driver.Request{Owner: a.owner, Claims: a.claims, TTL: s.ttl, Wait: s.wait}
	if len(a.claims) == 1 && a.claims[0].Mode == driver.ModeExclusive {
		req.HandOffs, req.Linger = 7, !s.once // as for any other, the engine would ask for some
	}
	req.OnHeld = func(driver.HeldError) { once.Do(func() { close(a.told) }) }
	r.asked = append(r.asked, a)
	go func() {
		defer close(a.done)
		a.said = a.send(ctx, req)
	}()
	select {
	case <-a.told:
	case <-a.done:
	}
	return a
}

// send asks, and at once renews a lease that has a first term, as the engine does. Otherwise
// the lease would end on a slow machine.
func (a *acquisition) send(ctx context.Context, req driver.Request) (said answer) {
	if a.once {
		said = answerOf(a.store.Begin(ctx, req))
	} else {
		grant, err := a.store.Acquire(ctx, req)
		said = answerOf(grant, nil, err)
	}
	if said.kind == granted && said.grant.Term > 0 {
		_ = a.store.Renew(ctx, []driver.Grant{said.grant}) // if it is lost by now, later steps show it
	}
	return said
}

// look reads the answer if there is one by now.
func (a *acquisition) look() {
	select {
	case <-a.done:
		a.kind = a.said.kind
	default:
		a.kind = waits
	}
}

// answer is a store's answer.
type answer struct {
	kind  kind
	grant driver.Grant
	found string // as in expected
	key   string
	why   string // of a loss: the reason of a forced release
	err   error

	repeated bool // it is about a release, maybe by force, that the store may have sent more than once
	late     bool // of a request that was given up: the backend took long to answer
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.kind == granted:
		return fmt.Sprintf("granted %d", a.grant.Token)
	}
	return string(a.kind)
}

// answerOf classifies what a store returned.
func answerOf(grant driver.Grant, rec *driver.Record, err error) answer {
	a := answer{kind: granted, grant: grant, err: err}
	var held *driver.HeldError
	var own *driver.DeadlockError
	var loss *driver.LeaseLostError
	switch {
	case errors.As(err, &held):
		a.kind, a.key = refused, held.Key
	case errors.As(err, &own):
		a.kind, a.key = deadlock, own.Key
	case errors.As(err, &loss):
		a.kind = lost
		if loss.Reason == driver.LossForced {
			a.why = loss.Detail
		}
	case err != nil:
		a.kind = failed
	case rec != nil:
		a.kind, a.found = recorded, record{size: len(rec.Result), notKept: rec.ResultNotKept}.String()
	}
	return a
}

// ended is answerOf for a call that grants nothing.
func ended(err error) answer {
	a := answerOf(driver.Grant{}, nil, err)
	if err == nil {
		a.kind = fine
	}
	return a
}
