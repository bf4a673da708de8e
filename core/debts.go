package core

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/observe"
)

// debts are the releases that the engine owes its store: of leases that no longer have a
// holder, but whose release the store has not answered. Without debts, the key would stay
// locked for the rest of the TTL, although nobody holds it.
//
// A debt is sent until the store answers, whatever the answer is. A release names owner and
// token, so it never touches a successor's lease. What nobody waits for, such as the release of a
// lease that lingered, is a debt from the beginning ([debts.owe]). A debt is sent again
//
//   - at once, when a caller of this process asks for the key ([debts.payFor]);
//   - as soon as the store has answered any other request ([debts.heard]);
//   - otherwise after a pause of 0.3 s at most ([debts.run]).
//
// It is dropped when the lease has run out by itself.
type debts struct {
	engine *Engine

	n       atomic.Int64 // number of debts; most calls look at nothing else
	news    chan struct{}
	ctx     context.Context // for the goroutine's tries
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	all     map[debtID]*debt
	byKey   map[string][]*debt
	queue   list.List // of *debt; those that have waited longest for a try come first
	first   firstTries
	started bool      // the goroutine runs
	closed  bool      // the goroutine must not be started again
	since   time.Time // when the first of the present debts was owed
	// ends counts how debts have ended since then that operators were told of.
	ends map[observe.DebtState]int
}

// mostDebts is the maximum number of debts that were tried, which bounds their memory at some 5 MB.
// Further releases run out with their TTL. Close has room for all.
const mostDebts = 10_000

// debtID identifies a debt.
type debtID struct {
	owner string
	token uint64
}

// debt is one release.
type debt struct {
	grant handoff.Grant
	rule  string
	until time.Time       // when the lease has run out at the store
	kept  bool            // there was room for it
	in    *list.List      // the queue, or one of the first tries
	at    *list.Element   // its place there; nil: not kept, or settled
	ctx   context.Context // of its first try, if nobody waits for that
	busy  chan struct{}   // closed when the try under way is over; nil: no try is under way
	told  bool            // the log has an entry about it
}

func (ds *debts) init(e *Engine) {
	ds.engine = e
	ds.news = make(chan struct{}, 1)
	ds.all, ds.byKey = make(map[debtID]*debt), make(map[string][]*debt)
	ds.first.parts, ds.ends = make(map[string]*turns), make(map[observe.DebtState]int)
	ds.ctx, ds.cancel = context.WithCancel(context.Background())
}

// answers reports whether err, of a release, is the store's answer about the lease.
func answers(err error) bool { return err == nil || errors.Is(err, ErrLeaseLost) }

// add enters a release whose first try is under way. The caller then owes a call of settle or
// failed. If the release is in the books already, add returns nil.
func (ds *debts) add(g handoff.Grant, rule string) *debt {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.addLocked(g, rule, &ds.queue)
}

func (ds *debts) addLocked(g handoff.Grant, rule string, to *list.List) *debt {
	// By then the lease has run out, even if an unanswered extension arrived: nothing that
	// prolongs it was sent after this moment.
	until := time.Now().Add(max(g.TTL, g.Longest))
	if g.MinHoldEnd != nil && g.MinHoldEnd.After(until) {
		until = *g.MinHoldEnd
	}
	d := &debt{grant: g, rule: rule, until: until, busy: make(chan struct{})}
	if ds.all[d.id()] != nil {
		return nil
	}
	full := to == &ds.queue && ds.queue.Len() >= mostDebts && !ds.engine.life.closing.Load()
	if ds.closed || full {
		return d
	}
	if len(ds.all) == 0 {
		ds.since = time.Now()
	}
	ds.all[d.id()] = d
	for _, c := range g.Claims {
		ds.byKey[c.Key] = append(ds.byKey[c.Key], d)
	}
	d.kept, d.in, d.at = true, to, to.PushBack(d)
	ds.n.Add(1)
	return d
}

func (d *debt) id() debtID { return debtID{d.grant.Owner, d.grant.Token} }

// strike removes g's release, which the store has answered.
func (ds *debts) strike(g handoff.Grant) {
	if ds.n.Load() == 0 {
		return
	}
	ds.mu.Lock()
	d := ds.all[debtID{g.Owner, g.Token}]
	ds.mu.Unlock()
	if d != nil {
		ds.settle(d, observe.DebtPaid)
	}
}

// failed ends a try that the store did not answer. The log has an entry about the first such try.
func (ds *debts) failed(ctx context.Context, d *debt, err error) {
	ds.mu.Lock()
	first, state := !d.told && (d.at != nil || !d.kept), observe.DebtOwed
	d.told = true
	if first && !d.kept {
		state = observe.DebtDropped
		ds.ends[state]++
	}
	ds.mu.Unlock()
	if first {
		ds.engine.log.owed(ctx, d, err)
		ds.became(ctx, d, state)
	}
	ds.mu.Lock() // again, because nobody is told under the mutex
	defer ds.mu.Unlock()
	d.free() // not before the entry in the log: a try that waits for this one could settle d and log that first
	if d.at != nil {
		ds.startLocked()
	}
}

// startLocked starts the goroutine that tries debts again.
func (ds *debts) startLocked() {
	if !ds.started && !ds.closed {
		ds.started = true
		ds.running.Go(ds.run)
	}
}

// free wakes those that wait for the try. Needs mu.
func (d *debt) free() {
	if d.busy != nil {
		close(d.busy)
		d.busy = nil
	}
}

// settle removes d.
func (ds *debts) settle(d *debt, how observe.DebtState) {
	ds.mu.Lock()
	d.free()
	told := d.told && d.at != nil
	if told || d.at != nil && how == observe.DebtClosed {
		ds.ends[how]++
	}
	if d.at != nil {
		ds.removeLocked(d)
	}
	ends, took := ds.ends, time.Since(ds.since)
	last := len(ds.all) == 0 && len(ends) > 0
	if last {
		ds.ends = make(map[observe.DebtState]int)
	}
	ds.mu.Unlock()
	if told {
		ds.became(context.Background(), d, how)
	}
	if last {
		ds.engine.log.debtsSettled(ends, took)
	}
}

func (ds *debts) removeLocked(d *debt) {
	d.in.Remove(d.at)
	d.at = nil
	delete(ds.all, d.id())
	for _, c := range d.grant.Claims {
		same := ds.byKey[c.Key]
		if i := slices.Index(same, d); i >= 0 {
			same = slices.Delete(same, i, i+1)
		}
		if ds.byKey[c.Key] = same; len(same) == 0 {
			delete(ds.byKey, c.Key)
		}
	}
	ds.n.Add(-1)
}

func (ds *debts) became(ctx context.Context, d *debt, state observe.DebtState) {
	if e := ds.engine; e.hooks != nil {
		e.hooks.owed(ctx, observe.Debt{Claims: e.showClaims(d.grant.Claims), Owner: d.grant.Owner, Rule: d.rule, Store: e.backend().about.Name, State: state})
	}
}
