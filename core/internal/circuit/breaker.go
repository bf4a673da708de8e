package circuit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Config is what a [Breaker] is made of. Log and Answered are required.
type Config struct {
	// Silence is for how long requests must have failed, with no answer to any request,
	// before further ones are refused. 0: none ever is.
	Silence time.Duration
	// Partition names the part of the store that has a key, as in [driver.Partitioned].
	// nil: the store has one part.
	Partition func(key string) string
	// Log writes one line.
	Log func(ctx context.Context, level slog.Level, msg string, args ...any)
	// Answered is called after each answer of the store, without a lock held.
	Answered func()
}

// Breaker refuses requests for leases whose part of the store is out. It is safe for
// concurrent use. It starts no goroutine.
type Breaker struct {
	cfg   Config
	whole part // the state of a store with one part, and of keys whose part is unknown

	mu    sync.Mutex
	parts map[string]*part
}

// mostParts bounds the states that are kept. Names change where servers are replaced,
// and the state of a server that has gone is of no use.
const mostParts = 64

// New makes a breaker for a store of which nothing is known yet.
func New(cfg Config) *Breaker {
	b := &Breaker{cfg: cfg, parts: make(map[string]*part)}
	b.whole.cfg = &b.cfg
	return b
}

// Ask is a request for a lease: driver.Store's Acquire or driver.Ledger's Begin. An alias,
// so that a function of this form is one.
type Ask = func(context.Context, driver.Request) (driver.Grant, *driver.Record, error)

// Ask sends req by ask, unless a part of the store that its claims need is out, and
// learns from the answer. Began is when the caller began to ask. It returns what ask
// returned, and the time of that; or an error that matches [ErrOpen] and
// driver.ErrUnavailable without having called ask.
//
// That the store has a request wait is to be told to [Breaker.Held] by req.OnHeld.
//
// A set of claims in several parts may be refused by each of them, and each learns
// what concerns it.
func (b *Breaker) Ask(ctx context.Context, began time.Time, req driver.Request, ask Ask) (driver.Grant, *driver.Record, time.Time, error) {
	if b.together(req.Claims) {
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

// Refuses returns the error for a caller that would only stand in line for a part of
// the store that is out; nil if one should ask.
func (b *Breaker) Refuses(claims []driver.Claim) error {
	if b.together(claims) {
		return b.of(claims[0].Key).refuses()
	}
	for _, p := range b.ofAll(claims) {
		if err := p.refuses(); err != nil {
			return err
		}
	}
	return nil
}

// Held notes that the store answered a request for claims, which has the context ctx: it
// has to wait.
func (b *Breaker) Held(ctx context.Context, claims []driver.Claim, held driver.HeldError) {
	key := held.Key
	if key == "" {
		key = claims[0].Key // a store need not say which is held
	}
	b.of(key).answered(ctx, time.Now())
}

// Learn takes in what came of a request about claims that are held: a renewal, a
// release or a record. An answer keeps the circuit closed and does not close it.
func (b *Breaker) Learn(claims []driver.Claim, err error) {
	switch {
	case err != nil && !errors.Is(err, driver.ErrLeaseLost):
		// A failure says nothing: the next request for a lease finds out.
	case b.together(claims):
		b.of(claims[0].Key).answeredHolder()
	case err == nil:
		for _, p := range b.ofAll(claims) {
			p.answeredHolder()
		}
	}
}

// AskNext ends the pause of the parts that claims need: the next request asks. For a
// store that has answered what it did not answer before.
func (b *Breaker) AskNext(claims []driver.Claim) {
	for _, p := range b.ofAll(claims) {
		p.askNext()
	}
}

// Parts names the parts of the store that claims need, in one word; "" if the store has
// one part.
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

// together says whether claims are in one part for sure.
func (b *Breaker) together(claims []driver.Claim) bool {
	return b.cfg.Partition == nil || len(claims) == 1
}

// of is the part that has key at this moment.
func (b *Breaker) of(key string) *part {
	if b.cfg.Partition == nil {
		return &b.whole
	}
	name := b.cfg.Partition(key)
	if name == "" {
		return &b.whole
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.parts[name]
	if p != nil {
		return p
	}
	if len(b.parts) >= mostParts {
		for name, p := range b.parts {
			if !p.refusing.Load() { // what it knows is some moments old at most
				delete(b.parts, name)
			}
		}
	}
	if len(b.parts) >= mostParts {
		return &b.whole
	}
	p = &part{cfg: &b.cfg, name: name}
	b.parts[name] = p
	return p
}

// ofAll are the parts that have claims, each once.
func (b *Breaker) ofAll(claims []driver.Claim) []*part {
	var all []*part
	for _, claim := range claims {
		if p := b.of(claim.Key); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// concerns says whether a set was refused because of p. An error that does not say
// which key it is about says nothing of any part.
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
