package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// places are the requests of this process that wait. While there are any, a goroutine looks at
// the database for all of them.
type places struct {
	s *Store

	mu      sync.Mutex
	byOwner map[string]waitloop.Bell
	looking bool
	sooner  waitloop.Bell // something has happened: look soon
}

func newPlaces(s *Store) *places {
	return &places{s: s, byOwner: make(map[string]waitloop.Bell), sooner: waitloop.NewBell()}
}

func (p *places) join(owner string) waitloop.Bell {
	p.mu.Lock()
	defer p.mu.Unlock()
	wake := waitloop.NewBell()
	p.byOwner[owner] = wake
	if !p.looking {
		p.looking = true
		p.s.calls.Go(p.look)
	}
	p.sooner.Ring()
	return wake
}

func (p *places) leave(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byOwner, owner)
}

func (p *places) tell(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byOwner[owner].Ring()
}

// tellAll has all of them ask: messages may have been lost.
func (p *places) tellAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, wake := range p.byOwner {
		wake.Ring()
	}
	p.sooner.Ring()
}

// owners returns the owners that wait. If there are none, the goroutine that looks ends.
func (p *places) owners() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.byOwner) == 0 || p.s.life.Err() != nil {
		p.looking = false
		return nil
	}
	all := make([]string, 0, len(p.byOwner))
	for owner := range p.byOwner {
		all = append(all, owner)
	}
	slices.Sort(all)
	return all
}

const firstPause = 10 * time.Millisecond

// pauses returns the first pause between two looks, and the longest.
func (p *places) pauses() (first, most time.Duration) {
	first, most = firstPause, p.s.cfg.poll
	if p.s.hears() {
		most *= 5
		first = most
	}
	return min(first, p.s.cfg.waiterLease/3), min(most, p.s.cfg.waiterLease/3)
}

// look looks for all that wait, until nobody does. With messages it is needed only when one was
// lost, or a holder has died.
func (p *places) look() {
	pause, _ := p.pauses()
	alive := time.Now()
	next := alive.Add(pause)
	for {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-p.sooner:
			// Never later: requests may join all the time.
			first, _ := p.pauses()
			if soon := time.Now().Add(first); soon.Before(next) {
				pause, next = first, soon
			}
			timer.Stop()
			continue
		case <-p.s.life.Done():
			timer.Stop()
		}
		owners := p.owners()
		if owners == nil {
			return
		}
		if time.Since(alive) >= p.s.cfg.waiterLease/3 {
			alive = time.Now()
			p.live(owners)
		}
		first, most := p.pauses()
		if p.turns(owners) {
			pause = first
		} else {
			pause = min(2*pause, most)
		}
		next = time.Now().Add(pause)
	}
}

// turns tells those that are no longer in a queue, and those whose holder is over. It reports
// whether there were any.
func (p *places) turns(owners []string) (some bool) {
	s := p.s
	for chunk := range slices.Chunk(owners, keysPerQuery) {
		args := make([]any, len(chunk))
		for i, owner := range chunk {
			args[i] = owner
		}
		wait := make(map[string]bool, len(chunk))
		query := "SELECT m.owner, CASE WHEN l.until <= " + s.d.clock + " THEN 1 ELSE 0 END FROM " + s.q.memberTable + " m JOIN " + s.q.lockTable +
			" l ON l.lock_key = m.lock_key WHERE m.waits = 1 AND m.owner IN (" + marks(len(chunk)) + ")"
		_, err, answered := do(s.life, s, s.room, nil, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.query(ctx, query, args, func() { clear(wait) }, func(rows *sql.Rows) error {
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
			return false // the next look may succeed, and a request that gives up asks by itself
		}
		for _, owner := range chunk {
			if !wait[owner] {
				p.tell(owner)
				some = true
			}
		}
	}
	return some
}

// live is the sign of life of all that wait.
func (p *places) live(owners []string) {
	s := p.s
	for chunk := range slices.Chunk(owners, keysPerQuery) {
		args := []any{toMicros(s.cfg.waiterLease)}
		for _, owner := range chunk {
			args = append(args, owner)
		}
		waiting := "waits = 1 AND owner IN (" + marks(len(chunk)) + ")"
		if s.d == &postgres {
			// It never waits for a row, so it can't deadlock with transactions, which PostgreSQL would
			// notice after a second. A row that is locked is about to change anyway.
			waiting = "(lock_key, owner) IN (SELECT lock_key, owner FROM " + s.q.memberTable + " WHERE " + waiting + " FOR UPDATE SKIP LOCKED)"
		}
		query := "UPDATE " + s.q.memberTable + " SET until = " + s.d.clock + " + ? WHERE " + waiting
		_, _, _ = do(s.life, s, s.room, nil, func(ctx context.Context) (int64, error) { // if it fails, the next one is in time
			return s.exec(ctx, query, args...)
		}, nil)
	}
}
