package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Between two rounds of tries there is a pause, with jitter: the processes of a
// fleet must not all come at once to a server that has just come back. It is short
// enough for a key to be free within a second of the store's return.
const (
	shortRest   = 20 * time.Millisecond
	longestRest = 200 * time.Millisecond
)

// fewTries is how many releases a round sends while the store is silent. One could
// be for the one server of several that is out.
const fewTries = 4

// run tries what is owed, round by round, until nothing is. As soon as the store
// answers, the rounds follow each other without a pause, and grow.
func (ds *debts) run() {
	for pause, most := shortRest, fewTries; ds.rest(pause); {
		for answered := true; answered; {
			due, owing := ds.due(most)
			if !owing {
				return
			}
			if answered = ds.payAll(ds.ctx, due) > 0; answered {
				pause, most = shortRest, min(2*most, mostTries)
			}
		}
		pause, most = min(2*pause, longestRest), fewTries
	}
}

// due picks the debts of a round, and takes out those that have run out. Without
// any debt the goroutine is to end.
func (ds *debts) due(most int) (due []*debt, owing bool) {
	select {
	case <-ds.news: // this is the round that it calls for
	default:
	}
	var expired []*debt
	ds.mu.Lock()
	now := time.Now()
	for at := ds.queue.Front(); at != nil; at = at.Next() {
		switch d := at.Value.(*debt); {
		case d.busy != nil:
		case !now.Before(d.until):
			expired = append(expired, d)
		case len(due) < most:
			due = append(due, d)
		}
	}
	for _, d := range due {
		ds.queue.MoveToBack(d.at)
	}
	owing = len(ds.all) > len(expired)
	ds.started = owing
	ds.mu.Unlock()
	for _, d := range expired {
		ds.end(d, DebtExpired)
	}
	return due, owing
}

// heard notes that the store has answered a request: it may be back.
func (ds *debts) heard() {
	if ds.n.Load() == 0 {
		return
	}
	select {
	case ds.news <- struct{}{}:
	default:
	}
}

// rest sleeps for about the pause, or until the store is heard; but for so long that
// one sick server among healthy ones is not asked all the time. It reports false when
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

// close goes on trying until ctx ends, and says what is still owed then.
func (ds *debts) close(ctx context.Context) error {
	ds.mu.Lock()
	ds.closed = true
	if len(ds.all) == 0 {
		ds.cancel() // the goroutine may still be at rest
	}
	ds.mu.Unlock()
	stop := context.AfterFunc(ctx, ds.cancel)
	defer stop()
	ds.heard() // or it would be at rest for some of the time that there is
	ds.running.Wait()
	ds.cancel()
	ds.mu.Lock()
	var left []*debt
	for at := ds.queue.Front(); at != nil; at = at.Next() {
		left = append(left, at.Value.(*debt))
	}
	ds.mu.Unlock()
	for _, d := range left {
		ds.end(d, DebtClosed)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("keyturn: closed with %d leases whose release was not answered: %w", len(left), ErrOutcomeUnknown)
}
