package sim

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
)

var silent = slog.New(slog.DiscardHandler)

// process is a process of the fleet: an engine with a store and a client of its own.
type process struct {
	nr     int
	ways   []*way // to each server
	cancel context.CancelFunc
	over   chan struct{} // closed when all its goroutines have ended
	died   int64         // 0: it was not killed
}

// fleet is the processes of a history. There are always the same number of them: a new one takes the
// place of one that was killed.
type fleet struct {
	Run
	net       *network
	hosts     []*host // what the stores ask: servers, or one of the others below
	servers   []*server
	nats      *natsServer
	sql       *sqlServer
	etcd      *etcdServer
	zk        *zkServer
	erase     func()                    // has the only server lose all data
	setClock  func(ahead time.Duration) // sets the server's clock forward, or back
	shutDown  func() (left []string)    // ends the servers, and returns what is left in them
	registers *work.Registers
	emptied   time.Time // when the server's data was lost last, by its own clock

	mu     sync.Mutex
	all    []*process
	alive  []*process // by place
	events []history.Event
}

// has notes the fleet's only server, of which left returns what is in it at the end, before it stops.
func (f *fleet) has(h *host, erase func(), left func() []string, stop func()) {
	f.hosts, f.erase = []*host{h}, erase
	f.shutDown = func() []string {
		defer stop()
		return left()
	}
}

// now is the clock that the processes share.
func now() int64              { return since(time.Now()) }
func since(t time.Time) int64 { return int64(t.Sub(began)) }

// began is when each bubble begins.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// start starts a process in a place.
func (f *fleet) start(place int) error {
	f.mu.Lock()
	p := &process{nr: len(f.all) + 1, over: make(chan struct{})}
	f.all = append(f.all, p)
	f.alive[place] = p
	f.mu.Unlock()
	store, hangUp, err := f.open(f, p)
	if err != nil {
		return err
	}
	recorder := &history.Recorder{Process: p.nr, Clock: now, Mono: since, Keep: func(e history.Event) { f.keep(p, e) }}
	w := &work.Worker{
		Recorder: recorder, Resource: owned{f, p}, TTL: f.TTL, Rest: rest, Think: time.Millisecond,
		Seed: uint64(f.chance.of(6, uint64(p.nr))), Retention: 5 * time.Second,
		Plain: f.plain,
	}
	if f.Wrap != nil {
		store = f.Wrap(store)
	}
	if err := w.NewEngine(store, core.WithLogger(silent)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.over)
		w.Work(ctx)
		_ = w.Engine.Close(context.Background()) // its last releases may have met a fault
		hangUp()
	}()
	return nil
}

// keep keeps an event, unless its process is dead.
func (f *fleet) keep(p *process, e history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.died > 0 {
		return
	}
	f.events = append(f.events, e)
}

// kill cuts a process off for good, and forgets it.
func (f *fleet) kill(p *process) {
	f.mu.Lock()
	p.died = now()
	f.mu.Unlock()
	for _, w := range p.ways {
		w.cut()
		w.set(func() { w.gone = true })
	}
	p.cancel()
}

// end has all processes finish what they are at.
func (f *fleet) end() {
	for _, p := range f.all {
		p.cancel()
	}
	for _, p := range f.all {
		<-p.over
	}
}

// owned are the registers as a process has them: a dead one writes nothing.
type owned struct {
	*fleet
	p *process
}

var errDead = errors.New("this process is dead")

func (o owned) dead() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.p.died > 0
}

// Get implements work.Resource.
func (o owned) Get(key string, token uint64) (uint64, error) {
	if o.dead() {
		return 0, errDead
	}
	return o.registers.Get(key, token)
}

// Set implements work.Resource.
func (o owned) Set(key string, token, value uint64) error {
	if o.dead() {
		return errDead
	}
	return o.registers.Set(key, token, value)
}
