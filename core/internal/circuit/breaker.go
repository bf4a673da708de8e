package circuit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Config configures a [Breaker]. Log and Answered are required.
type Config struct {
	// Silence is how long requests must have failed, with no answer to any request, before the
	// breaker refuses further ones. 0: it never refuses.
	Silence time.Duration
	// Partition names the part of the store that has a key, as in [driver.Description]. nil:
	// the store has one part.
	Partition func(key string) string
	// Log writes one line.
	Log func(ctx context.Context, level slog.Level, msg string, args ...any)
	// Answered is called after each answer of the store, while no mutex is held.
	Answered func()
}

// Breaker refuses requests for leases whose part of the store is out. It is safe for concurrent
// use and starts no goroutine.
type Breaker struct {
	cfg   Config
	whole part // the state of a store with one part, and of keys whose part is unknown

	parts  atomic.Pointer[map[string]*part] // the map is never written to, but replaced
	adding sync.Mutex                       // replaces it
}

// mostParts is the number of states that are kept at most. Part names change when servers are
// replaced, and the state of a server that is gone has no use.
const mostParts = 64

// New makes a breaker that knows nothing of its store yet.
func New(cfg Config) *Breaker {
	b := &Breaker{cfg: cfg}
	b.parts.Store(&map[string]*part{})
	b.whole.cfg = &b.cfg
	return b
}

// Ask sends a request for a lease: driver.Store's Acquire or Begin. It is an
// alias, so any function of this form is an Ask.
type Ask = func(context.Context, driver.Request) (driver.Grant, *driver.Record, error)

// Ask sends req by calling ask, and learns from the answer. began is when the caller began to
// ask. Ask returns what ask returned, and when. If a part of the store that the claims need is
// out, ask is not called, and the error matches [ErrOpen] and driver.ErrUnavailable.
//
// The caller's req.OnHeld has to tell [Breaker.Held] that the store answered "wait".
//
// If a set has claims in several parts, each of them may refuse it. Each part learns only from
// failures that concern it.
func (b *Breaker) Ask(ctx context.Context, began time.Time, req driver.Request, ask Ask) (driver.Grant, *driver.Record, time.Time, error) {
	if b.onePart(req.Claims) {
		return b.of(req.Claims[0].Key).ask(ctx, began, req, nil, ask)
	}
	for _, p := range b.ofAll(req.Claims) {
		within := ask
		ask = func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
			grant, rec, _, err := p.ask(ctx, began, req, func(err error) bool { return b.concerns(p, err) }, within)
			return grant, rec, err
		}
	}
	grant, rec, err := ask(ctx, req)
	return grant, rec, time.Now(), err
}

// Refuses returns the error for a caller that would only join the line for a part of the store
// that is out; nil if the caller should ask.
func (b *Breaker) Refuses(claims []driver.Claim) error {
	if b.onePart(claims) {
		return b.of(claims[0].Key).refuses()
	}
	for _, p := range b.ofAll(claims) {
		if err := p.refuses(); err != nil {
			return err
		}
	}
	return nil
}

// IsOut reports whether the part of the store that has key is out.
func (b *Breaker) IsOut(key string) bool { return b.of(key).state.Load() == out }

// Held notes that the store answered a request for claims: it has to wait. ctx is the context
// of that request.
func (b *Breaker) Held(ctx context.Context, claims []driver.Claim, held driver.HeldError) {
	key := held.Key
	if key == "" {
		key = claims[0].Key // a store need not say which key is held
	}
	b.of(key).answered(ctx, time.Now())
}

// Learn notes the result of a request about claims that are held: a renewal, a release or a
// record. An answer keeps a closed circuit closed, but does not close an open one.
func (b *Breaker) Learn(claims []driver.Claim, err error) {
	switch {
	case err != nil && !errors.Is(err, driver.ErrLeaseLost):
		// A failure is ignored: the next request for a lease shows whether the store is out.
	case b.onePart(claims):
		b.of(claims[0].Key).answeredHolder()
	case err == nil:
		for _, p := range b.ofAll(claims) {
			p.answeredHolder()
		}
	}
}

// AskNext ends the pause of the parts that claims need, so the next request is sent. Call it
// when the store has answered a request that it did not answer before.
func (b *Breaker) AskNext(claims []driver.Claim) {
	for _, p := range b.ofAll(claims) {
		p.askNext()
	}
}

// Parts returns one text that names the parts of the store that claims need; "" if the store
// has one part.
func (b *Breaker) Parts(claims []driver.Claim) string {
	switch {
	case b.cfg.Partition == nil:
		return ""
	case len(claims) == 1:
		return b.cfg.Partition(claims[0].Key)
	}
	var all []string
	for _, claim := range claims {
		all = append(all, b.cfg.Partition(claim.Key))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// onePart reports whether all claims are certainly in one part.
func (b *Breaker) onePart(claims []driver.Claim) bool {
	return b.cfg.Partition == nil || len(claims) == 1
}

// of returns the part that has key at present.
func (b *Breaker) of(key string) *part {
	if b.cfg.Partition == nil {
		return &b.whole
	}
	name := b.cfg.Partition(key)
	if name == "" {
		return &b.whole
	}
	if p := (*b.parts.Load())[name]; p != nil {
		return p
	}
	return b.add(name)
}

// add returns the part with that name, of which nothing may be known yet.
func (b *Breaker) add(name string) *part {
	b.adding.Lock()
	defer b.adding.Unlock()
	parts := maps.Clone(*b.parts.Load())
	if p := parts[name]; p != nil {
		return p
	}
	if len(parts) >= mostParts {
		maps.DeleteFunc(parts, func(_ string, p *part) bool {
			return p.state.Load() != out // its knowledge is a moment old at most
		})
	}
	if len(parts) >= mostParts {
		return &b.whole
	}
	p := &part{cfg: &b.cfg, name: name}
	parts[name] = p
	b.parts.Store(&parts)
	return p
}

// ofAll returns the parts that have claims, each once.
func (b *Breaker) ofAll(claims []driver.Claim) []*part {
	var all []*part
	for _, claim := range claims {
		if p := b.of(claim.Key); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// concerns reports whether a set failed because of p. An error that names no key says nothing
// about any part.
func (b *Breaker) concerns(p *part, err error) bool {
	var held *driver.HeldError
	var out *driver.UnavailableError
	switch {
	case err == nil:
		return true
	case errors.As(err, &held):
		return held.Key != "" && b.of(held.Key) == p
	case errors.As(err, &out):
		return out.Key != "" && b.of(out.Key) == p
	}
	return false
}
