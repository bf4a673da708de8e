package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// waiters are the requests of this process that wait. While there are any, a goroutine polls the database
// for all of them.
type waiters struct {
	s *Store

	mu      sync.Mutex
	byOwner map[string]waitloop.Bell
	polling bool
	sooner  waitloop.Bell // something has happened: poll soon
}

func newWaiters(s *Store) *waiters {
	return &waiters{s: s, byOwner: make(map[string]waitloop.Bell), sooner: waitloop.NewBell()}
}

func (w *waiters) join(owner string) waitloop.Bell {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake := waitloop.NewBell()
	w.byOwner[owner] = wake
	if !w.polling {
		w.polling = true
		w.s.calls.Go(w.poll)
	}
	w.sooner.Ring()
	return wake
}

func (w *waiters) leave(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byOwner, owner)
}

func (w *waiters) tell(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byOwner[owner].Ring()
}

// tellAll has all of them ask: messages may have been lost.
func (w *waiters) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wake := range w.byOwner {
		wake.Ring()
	}
	w.sooner.Ring()
}

// owners returns the owners that wait. If there are none, the goroutine that polls ends.
func (w *waiters) owners() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byOwner) == 0 || w.s.life.Err() != nil {
		w.polling = false
		return nil
	}
	all := make([]string, 0, len(w.byOwner))
	for owner := range w.byOwner {
		all = append(all, owner)
	}
	slices.Sort(all)
	return all
}

const firstPause = 10 * time.Millisecond

// pauses returns the first pause between two polls, and the longest.
func (w *waiters) pauses() (first, most time.Duration) {
	first, most = firstPause, w.s.cfg.poll
	if w.s.hears() {
		most *= 5
		first = most
	}
	return min(first, w.s.cfg.waiterLease/3), min(most, w.s.cfg.waiterLease/3)
}

// poll asks for all that wait, until nobody does. With messages it is needed only when one was
// lost, or a holder has died.
func (w *waiters) poll() {
	pause, _ := w.pauses()
	alive := time.Now()
	next := alive.Add(pause)
	for {
		select {
		case <-time.After(time.Until(next)):
		case <-w.sooner:
			// Never later: requests may join all the time.
			first, _ := w.pauses()
			if soon := time.Now().Add(first); soon.Before(next) {
				pause, next = first, soon
			}
			continue
		case <-w.s.life.Done():
		}
		owners := w.owners()
		if owners == nil {
			return
		}
		if time.Since(alive) >= w.s.cfg.waiterLease/3 {
			alive = time.Now()
			for chunk := range slices.Chunk(owners, keysPerQuery) {
				w.keepAlive(chunk)
			}
		}
		first, most := w.pauses()
		if w.turns(owners) {
			pause = first
		} else {
			pause = min(2*pause, most)
		}
		next = time.Now().Add(pause)
	}
}

// turns tells those that are no longer in a queue, and those whose holder is over. It reports
// whether there were any.
func (w *waiters) turns(owners []string) (some bool) {
	s := w.s
	for chunk := range slices.Chunk(owners, keysPerQuery) {
		args := make([]any, len(chunk))
		for i, owner := range chunk {
			args[i] = owner
		}
		wait := make(map[string]bool, len(chunk))
		query := "SELECT m.owner, CASE WHEN l.until <= " + s.d.clock + " THEN 1 ELSE 0 END FROM " + s.q.memberTable + " m JOIN " + s.q.lockTable +
			" l ON l.lock_key = m.lock_key WHERE m.waits = 1 AND m.owner IN (" + marks(len(chunk)) + ")"
		err, answered := s.do(s.life, s.workers, nil, func(ctx context.Context) error {
			return s.query(ctx, query, args, func() { clear(wait) }, func(rows *sql.Rows) error {
				var owner string
				var over int
				if err := rows.Scan(&owner, &over); err != nil {
					return err
				}
				wait[owner] = over == 0
				return nil
			})
		}, nil)
		if err != nil || !answered {
			return false // the next poll may succeed, and a request that gives up asks by itself
		}
		for _, owner := range chunk {
			if !wait[owner] {
				w.tell(owner)
				some = true
			}
		}
	}
	return some
}

// keepAlive is the sign of life of those that wait. It waits for no row: one that is locked for long would cost
// all of them their places. A row that is locked for a moment is about to change anyway.
func (w *waiters) keepAlive(owners []string) {
	s := w.s
	args := []any{toMicros(s.cfg.waiterLease)}
	for _, owner := range owners {
		args = append(args, owner)
	}
	first, waiting := "", "waits = 1 AND owner IN ("+marks(len(owners))+")"
	switch s.d {
	case &postgres:
		waiting = "(lock_key, owner) IN (SELECT lock_key, owner FROM " + s.q.memberTable + " WHERE " + waiting + " FOR UPDATE SKIP LOCKED)"
	case &mysql:
		first = dontWait
	}
	query := first + "UPDATE " + s.q.memberTable + " SET until = " + s.d.clock + " + ? WHERE " + waiting
	// If it fails, the next one is in time.
	err, _ := s.try(s.life, s.workers, nil, func(ctx context.Context) error { return s.exec(ctx, query, args...) }, nil)
	if n := len(owners) / 2; n > 0 && isLocked(err) { // MariaDB can't leave the locked one out
		w.keepAlive(owners[:n])
		w.keepAlive(owners[n:])
	}
}
