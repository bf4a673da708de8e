package poll

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Source is what a poller asks. An engine is one.
type Source interface {
	Inspect(ctx context.Context, key string) (driver.LockInfo, error)
	ListAll(ctx context.Context, prefix string) iter.Seq2[driver.LockInfo, error]
}

const (
	// sweepMost is how many keys of the list are asked for in an interval: six pages of an engine's. A
	// page is two commands to a Redis server.
	sweepMost = 600
	// focusMost is how many keys are asked for by name in an interval. The Redis store sends requests
	// of concurrent callers together, in a few commands.
	focusMost = 16
	// mostOpened bounds the keys that somebody looks at, of which there may be none in the store.
	mostOpened = 256
	// lookFor is for how long a look counts. A page without script reloads more often than that.
	lookFor = 30 * time.Second
	// patience bounds a look at a single key. A list that says nothing for so long is waited for, but the
	// viewers learn of it.
	patience = 2 * time.Second
)

// errSilent is what viewers are told meanwhile. The store's own timeout may be much longer.
var errSilent error = &driver.UnavailableError{Op: "list", Err: fmt.Errorf("no answer for %v", patience)}

// Poller polls. Make one with [New].
type Poller struct {
	src      Source
	interval time.Duration
	always   bool

	ctx  context.Context
	stop context.CancelFunc
	runs sync.WaitGroup

	mu      sync.Mutex
	running bool
	closed  bool
	until   time.Time     // somebody looks until then
	next    chan struct{} // closed with the next publication
	seen    seen          // what was seen
}

// Reach is how far apart two samples of a key may be that are taken to follow each other.
func Reach(interval time.Duration) time.Duration { return 2*interval + interval/2 }

// New makes a poller. It asks for nothing before the first [Poller.Look], unless always is set.
func New(src Source, interval time.Duration, always bool) *Poller {
	p := &Poller{src: src, interval: interval, always: always, next: make(chan struct{})}
	p.seen.init(Reach(interval))
	p.ctx, p.stop = context.WithCancel(context.Background())
	if always {
		p.Look("")
	}
	return p
}

// Close ends the poller and waits for its goroutine.
func (p *Poller) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.runs.Wait()
}

// Done is closed when the poller is.
func (p *Poller) Done() <-chan struct{} { return p.ctx.Done() }

// Look says that somebody looks, at this key in particular unless it is "". It counts for half a minute.
func (p *Poller) Look(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(lookFor)
	if key != "" {
		p.seen.open(key, p.until)
	}
	if !p.running && !p.closed {
		p.running = true
		p.runs.Go(p.run)
	}
}

// Next returns a channel that is closed when there is something newer than what can be read now.
func (p *Poller) Next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// run polls until nobody looks any more.
func (p *Poller) run() {
	p.with(func(s *seen) { s.begin(time.Now()) })
	silence := time.AfterFunc(patience, p.silent)
	defer silence.Stop()
	asked := 0
	for {
		began := time.Now()
		var failed error
		silence.Reset(patience)
		for info, err := range p.src.ListAll(p.ctx, "") {
			if err != nil {
				failed = err
				break
			}
			silence.Reset(patience)
			at := time.Now()
			p.with(func(s *seen) { s.listed(at, info) })
			if asked++; asked >= sweepMost {
				asked = 0
				silence.Stop()
				if !p.rest() {
					return
				}
				silence.Reset(patience)
			}
		}
		silence.Stop()
		if p.ctx.Err() == nil {
			p.with(func(s *seen) { s.swept(began, time.Now(), failed) })
		}
		asked = 0
		if !p.rest() {
			return
		}
	}
}

// silent tells the viewers that the store does not answer.
func (p *Poller) silent() {
	p.with(func(s *seen) { s.failed(time.Now(), errSilent) })
	p.publish()
}

// rest publishes what was seen, waits for the rest of the interval, and looks at the keys that matter
// most. It reports whether to go on.
func (p *Poller) rest() bool {
	p.publish()
	timer := time.NewTimer(p.interval)
	defer timer.Stop()
	select {
	case <-p.ctx.Done():
	case <-timer.C:
	}
	p.mu.Lock()
	now := time.Now()
	if p.ctx.Err() != nil || !p.always && now.After(p.until) {
		p.running = false
		p.mu.Unlock()
		return false
	}
	p.seen.shut(now)
	keys := p.seen.focus(focusMost)
	p.mu.Unlock()
	p.inspect(keys)
	return true
}

func (p *Poller) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.published(time.Now())
	close(p.next)
	p.next = make(chan struct{})
}

// inspect looks at keys, all at once: a store that gathers requests sends them together.
func (p *Poller) inspect(keys []string) {
	ctx, cancel := context.WithTimeout(p.ctx, max(patience, 2*p.interval))
	defer cancel()
	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() { _ = p.look(ctx, key) }) // what failed is noted
	}
	all.Wait()
}

// Refresh looks at one key now. It does not wait for longer than a look of the poller's own. If it
// fails, nobody knows who has the key, unless there is a row of it.
func (p *Poller) Refresh(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.look(ctx, key)
}

// look looks at one key.
func (p *Poller) look(ctx context.Context, key string) error {
	info, err := p.src.Inspect(ctx, key)
	at := time.Now()
	p.with(func(s *seen) {
		switch {
		case err == nil:
			s.add(at, info)
		case isOut(err):
			s.failed(at, err)
		}
	})
	return err
}

func (p *Poller) with(f func(*seen)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.seen)
}

// isOut reports whether err says that the store is out, rather than that one key can't be read.
func isOut(err error) bool {
	var out *driver.UnavailableError
	return errors.Is(err, driver.ErrUnavailable) && !(errors.As(err, &out) && out.Refused)
}
