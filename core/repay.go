package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/observe"
)

// payFor pays the debts for the keys of claims, for a caller that is about to ask the store for
// them. The error says why something is still owed: then the store may say that the caller's own
// process holds the key.
func (ds *debts) payFor(ctx context.Context, claims []Claim) error {
	ds.mu.Lock()
	var owed []*debt
	for _, c := range claims {
		owed = append(owed, ds.byKey[c.Key]...)
	}
	ds.mu.Unlock()
	_, err := ds.payAll(ctx, owed)
	return err
}

// mostTries is how many releases are under way at a time. Those for one server leave together,
// so their round trips do not add up.
const mostTries = 64

// payAll tries the debts, several at a time. It returns how many the store answered, and an error if
// some are left: a refusal, if there was one.
func (ds *debts) payAll(ctx context.Context, owed []*debt) (paid int, err error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	for part := range slices.Chunk(owed, max(len(owed)-1, 0)/mostTries+1) {
		workers.Go(func() {
			n, failed := ds.payInTurn(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			paid += n
			if err == nil || isRefusal(failed) {
				err = failed
			}
		})
	}
	workers.Wait()
	return paid, err
}

// payInTurn tries one debt after the other. It stops at the first that the store does not answer.
func (ds *debts) payInTurn(ctx context.Context, owed []*debt) (paid int, err error) {
	for i, d := range owed {
		if err := ds.pay(ctx, d); err != nil {
			return i, err
		}
	}
	return len(owed), nil
}

// pay tries one debt, after a try that may be under way. The error says why it is not settled.
func (ds *debts) pay(ctx context.Context, d *debt) error {
	for {
		ds.mu.Lock()
		busy, over := d.busy, d.at == nil
		if busy == nil && !over {
			d.busy = make(chan struct{})
		}
		ds.mu.Unlock()
		switch {
		case over:
			return nil
		case busy == nil:
			return ds.try(ctx, d)
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try sends d. The caller must have set d.busy.
func (ds *debts) try(ctx context.Context, d *debt) error {
	bounded, cancel := context.WithTimeout(ctx, min(ds.engine.cfg.releaseTimeout, circuit.ProbeTime))
	defer cancel()
	defer context.AfterFunc(ds.ctx, cancel)()
	err := ds.engine.askRelease(bounded, d.grant)
	if !answers(err) {
		ds.failed(ctx, d, err)
		return err
	}
	ds.engine.backend().circuit.AskNext(d.grant.Claims)
	ds.settle(d, observe.DebtPaid)
	return nil
}

// The pause between two rounds of tries, with jitter: the processes of a fleet must not all
// come at once to a server that has just come back. It is short enough for a key to be free
// within a second of the store's return.
const (
	shortRest   = 20 * time.Millisecond
	longestRest = 200 * time.Millisecond
)

// fewTries is how many releases a round sends while the store is silent. There is more than
// one, because one could be for the one server of several that is out.
const fewTries = 4

// run tries the debts, round by round, until none is left. As soon as the store answers, the
// rounds follow each other without a pause, and become larger.
func (ds *debts) run() {
	for pause, most := shortRest, fewTries; ds.rest(pause); {
		ds.expire()
		for answered := true; answered; {
			due, owing := ds.due(most)
			if !owing {
				return
			}
			paid, _ := ds.payAll(ds.ctx, due)
			if answered = paid > 0; answered {
				pause, most = shortRest, min(2*most, mostTries)
			}
		}
		pause, most = min(2*pause, longestRest), fewTries
	}
}

// expire drops the debts whose lease has run out.
func (ds *debts) expire() {
	var expired []*debt
	ds.mu.Lock()
	now := time.Now()
	for at := ds.queue.Front(); at != nil; at = at.Next() {
		if d := at.Value.(*debt); d.busy == nil && !now.Before(d.until) {
			expired = append(expired, d)
		}
	}
	ds.mu.Unlock()
	for _, d := range expired {
		ds.settle(d, observe.DebtExpired)
	}
}

// due returns the debts of a round. owing is false if there is no debt left to try again; then the
// goroutine ends.
func (ds *debts) due(most int) (due []*debt, owing bool) {
	select {
	case <-ds.news: // the present round is the one that it asks for
	default:
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for at := ds.queue.Front(); at != nil && len(due) < most; at = at.Next() {
		if d := at.Value.(*debt); d.busy == nil {
			due = append(due, d)
		}
	}
	for _, d := range due {
		ds.queue.MoveToBack(d.at)
	}
	ds.started = ds.queue.Len() > 0
	return due, ds.started
}

// heard notes that the store has answered a request, so it may be back.
func (ds *debts) heard() {
	if ds.n.Load() == 0 {
		return
	}
	select {
	case ds.news <- struct{}{}:
	default:
	}
}

// rest sleeps for about the pause, or until the store answers something. It always sleeps long
// enough that one sick server among healthy ones is not asked all the time. It reports false if
// the engine has closed.
func (ds *debts) rest(pause time.Duration) bool {
	least := time.NewTimer(shortRest)
	defer least.Stop()
	most := time.NewTimer(pause/2 + rand.N(pause))
	defer most.Stop()
	select {
	case <-least.C:
	case <-ds.ctx.Done():
		return false
	}
	select {
	case <-most.C:
	case <-ds.news:
	case <-ds.ctx.Done():
		return false
	}
	return true
}

// close goes on trying until all tries end. The error says what is still owed then.
func (ds *debts) close() error {
	ds.mu.Lock()
	ds.closed = true
	if len(ds.all) == 0 {
		ds.cancel() // the goroutine may be asleep
	}
	ds.mu.Unlock()
	ds.heard() // otherwise it would sleep for a part of the remaining time
	ds.running.Wait()
	ds.cancel()
	ds.mu.Lock()
	var left []*debt
	for at := ds.queue.Front(); at != nil; at = at.Next() {
		left = append(left, at.Value.(*debt))
	}
	ds.mu.Unlock()
	for _, d := range left {
		ds.settle(d, observe.DebtClosed)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("keyturn: closed with %d leases whose release was not answered: %w", len(left), ErrOutcomeUnknown)
}
