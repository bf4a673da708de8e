package core

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/observe"
)

// debts are the releases that the engine owes its store: of leases whose holders
// are done, and whose release the store has not answered. Without them the key
// would stay locked for the rest of the TTL, although nobody holds it.
//
// A debt is sent again until the store answers, whatever it says: a release is by
// owner and token, so it never touches a successor's lease. That happens
//
//   - at once, when a caller of this process asks for the key ([debts.settle]);
//   - as soon as the store has answered any other request ([debts.heard]);
//   - otherwise after a pause, of 0.3 s at most ([debts.run]).
//
// It is given up when the lease has run out by itself.
type debts struct {
	engine   *Engine
	patience time.Duration // for one try

	n       atomic.Int64 // how many there are; all that most calls have to look at
	news    chan struct{}
	ctx     context.Context // of the goroutine's tries
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	all     map[debtID]*debt
	byKey   map[string][]*debt
	queue   list.List // of *debt, those first that wait longest for a try
	started bool      // the goroutine runs
	closed  bool      // it is not started again
	since   time.Time // when the first of those was owed
	ends    debtEnds  // of those since then
}

// mostDebts bounds how many there are, and so their memory, at some 5 MB. What is
// owed beyond that runs out with its TTL.
const mostDebts = 10_000

// debtID tells debts apart. The token belongs to it because a downgrade may have
// brought back a lease under another one ([watched.Downgrade]).
type debtID struct {
	owner string
	token uint64
}

// debt is one release.
type debt struct {
	grant handoff.Grant
	rule  string
	until time.Time     // when the lease has run out at the store
	kept  bool          // there was room
	at    *list.Element // in the queue; nil: not kept, or settled
	busy  chan struct{} // closed when the try under way is over; nil: none is
	told  bool          // an operator knows that it is owed
}

// debtEnds counts what became of debts that were told.
type debtEnds struct{ paid, expired, dropped, closed int }

func (e *debtEnds) count(how observe.DebtState) {
	switch how {
	case observe.DebtPaid:
		e.paid++
	case observe.DebtExpired:
		e.expired++
	case observe.DebtDropped:
		e.dropped++
	case observe.DebtClosed:
		e.closed++
	}
}

func (ds *debts) init(e *Engine) {
	ds.engine = e
	ds.patience = min(e.releaseTimeout, circuit.ProbeTime)
	ds.news = make(chan struct{}, 1)
	ds.all, ds.byKey = make(map[debtID]*debt), make(map[string][]*debt)
	ds.ctx, ds.cancel = context.WithCancel(context.Background())
}

// answers says whether err, of a release, is the store's word about the lease.
func answers(err error) bool { return err == nil || errors.Is(err, ErrLeaseLost) }

// add enters a release, with its first try under way: the caller owes an end or a
// failed. Where the release is in the books already there is nothing to add, and
// the debt is nil.
func (ds *debts) add(g handoff.Grant, rule string) *debt {
	// By then it has run out, even if an unanswered extension arrived: nothing that
	// prolongs it was sent after this moment.
	until := time.Now().Add(max(g.TTL, g.Longest))
	d := &debt{grant: g, rule: rule, until: until, busy: make(chan struct{})}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.all[d.id()] != nil {
		return nil
	}
	if ds.closed || len(ds.all) >= mostDebts {
		return d
	}
	if len(ds.all) == 0 {
		ds.since, ds.ends = time.Now(), debtEnds{}
	}
	ds.all[d.id()] = d
	for _, c := range g.Claims {
		ds.byKey[c.Key] = append(ds.byKey[c.Key], d)
	}
	d.kept, d.at = true, ds.queue.PushBack(d)
	ds.n.Add(1)
	return d
}

func (d *debt) id() debtID { return debtID{d.grant.Owner, d.grant.Token} }

// strike takes g's release out of the books, which the store has answered.
func (ds *debts) strike(g handoff.Grant) {
	if ds.n.Load() == 0 {
		return
	}
	ds.mu.Lock()
	d := ds.all[debtID{g.Owner, g.Token}]
	ds.mu.Unlock()
	if d != nil {
		ds.end(d, observe.DebtPaid)
	}
}

// failed ends a try that the store did not answer. An operator is told of the first
// one.
func (ds *debts) failed(ctx context.Context, d *debt, err error) {
	ds.mu.Lock()
	first := !d.told && (d.at != nil || !d.kept)
	d.told = true
	if first && !d.kept {
		ds.ends.count(observe.DebtDropped)
	}
	ds.mu.Unlock()
	if first {
		ds.tell(ctx, d, err)
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.free()
	if d.at != nil && !ds.started && !ds.closed {
		ds.started = true
		ds.running.Go(ds.run)
	}
}

// free lets those go on who wait for the try. Needs mu.
func (d *debt) free() {
	if d.busy != nil {
		close(d.busy)
		d.busy = nil
	}
}

// end takes d out of the books.
func (ds *debts) end(d *debt, how observe.DebtState) {
	ds.mu.Lock()
	d.free()
	told := d.told && d.at != nil
	if told {
		ds.ends.count(how)
	}
	if d.at != nil {
		ds.removeLocked(d)
	}
	ends, took := ds.ends, time.Since(ds.since)
	last := len(ds.all) == 0 && ends != debtEnds{}
	if last {
		ds.ends = debtEnds{}
	}
	ds.mu.Unlock()
	if told {
		ds.became(context.Background(), d, how)
	}
	if last {
		ds.engine.log.settled(ends, took)
	}
}

func (ds *debts) removeLocked(d *debt) {
	ds.queue.Remove(d.at)
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

// tell has operators know that the store did not answer d.
func (ds *debts) tell(ctx context.Context, d *debt, err error) {
	state := observe.DebtOwed
	if !d.kept {
		state = observe.DebtDropped
	}
	ds.engine.log.owed(ctx, d, err)
	ds.became(ctx, d, state)
}

func (ds *debts) became(ctx context.Context, d *debt, state observe.DebtState) {
	if e := ds.engine; e.hooks != nil {
		e.hooks.owed(ctx, observe.Debt{Claims: d.grant.Claims, Owner: d.grant.Owner, Rule: d.rule, Store: e.about.Name, State: state})
	}
}
