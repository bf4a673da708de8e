package core

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// circuits are those of one store: one for each of its parts that fail by themselves
// ([driver.Partitioned]), so that a part that is out refuses the callers of its own keys
// and of no others. A store that is one server has one.
type circuits struct {
	silence  time.Duration
	log      *logger
	listener func()                  // is told of each answer
	part     func(key string) string // nil: there is one part
	all      circuit                 // of a store with one part, or of an unknown one

	mu    sync.Mutex
	parts map[string]*circuit
}

// mostCircuits bounds them. Names change where servers are replaced, and one of a
// server that has gone is of no use.
const mostCircuits = 64

func (cs *circuits) open(store driver.Store, silence time.Duration, log *logger, listener func()) {
	cs.silence, cs.log, cs.listener = silence, log, listener
	cs.all = circuit{silence: silence, log: log, listener: listener}
	if p, ok := store.(driver.Partitioned); ok {
		cs.part, cs.parts = p.Partition, make(map[string]*circuit)
	}
}

// of is the circuit for a key, at this moment.
func (cs *circuits) of(key string) *circuit {
	if cs.part == nil {
		return &cs.all
	}
	name := cs.part(key)
	if name == "" {
		return &cs.all
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.parts[name]
	if c != nil {
		return c
	}
	if len(cs.parts) >= mostCircuits {
		for name, c := range cs.parts {
			if !c.refusing.Load() { // what it knows is some moments old at most
				delete(cs.parts, name)
			}
		}
	}
	if len(cs.parts) >= mostCircuits {
		return &cs.all
	}
	c = &circuit{silence: cs.silence, log: cs.log, part: name, listener: cs.listener}
	cs.parts[name] = c
	return c
}

// ofAll are the circuits for claims, each once.
func (cs *circuits) ofAll(claims []Claim) []*circuit {
	var all []*circuit
	for _, claim := range claims {
		if c := cs.of(claim.Key); !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// names are the parts of the store that claims need, in one word.
func (cs *circuits) names(claims []Claim) string {
	switch {
	case cs.part == nil:
		return ""
	case len(claims) == 1:
		return cs.part(claims[0].Key)
	}
	var all []string
	for _, claim := range claims {
		all = append(all, cs.part(claim.Key))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// refuses is [circuit.refuses] of any that claims need.
func (cs *circuits) refuses(claims []Claim) error {
	if cs.part == nil || len(claims) == 1 {
		return cs.of(claims[0].Key).refuses()
	}
	for _, c := range cs.ofAll(claims) {
		if err := c.refuses(); err != nil {
			return err
		}
	}
	return nil
}

// ask is [circuit.ask] of all that the request's claims need. A set that is spread
// over several asks within each of them, so any may refuse it, and each learns what
// concerns it.
func (cs *circuits) ask(ctx context.Context, asked time.Time, req driver.Request, ask ask) (driver.Grant, *driver.Record, time.Time, error) {
	if cs.part == nil || len(req.Claims) == 1 {
		return cs.of(req.Claims[0].Key).ask(ctx, asked, req, nil, ask)
	}
	for _, c := range cs.ofAll(req.Claims) {
		within := ask
		ask = func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
			grant, rec, _, err := c.ask(ctx, asked, req, func(err error) bool { return cs.concerns(c, err) }, within)
			return grant, rec, err
		}
	}
	grant, rec, err := ask(ctx, req)
	return grant, rec, time.Now(), err
}

// concerns says whether a refused set has come to nothing because of c's part. What
// does not say which key it is about says nothing of any part.
func (cs *circuits) concerns(c *circuit, err error) bool {
	var held *HeldError
	var out *UnavailableError
	switch {
	case err == nil:
		return true
	case errors.As(err, &held):
		return held.Key != "" && cs.of(held.Key) == c
	case errors.As(err, &out):
		return out.Key != "" && cs.of(out.Key) == c
	}
	return false
}

// told notes that the store answered a request with ctx: it has to wait.
func (cs *circuits) told(ctx context.Context, claims []Claim, held HeldError) {
	key := held.Key
	if key == "" {
		key = claims[0].Key // a store need not say which is held
	}
	cs.of(key).heard(ctx, time.Now())
}

// overheard is [circuit.overheard], for claims.
func (cs *circuits) overheard(claims []Claim, err error) {
	switch {
	case err != nil && !errors.Is(err, ErrLeaseLost):
		// A failure says nothing: whoever acquires will see for itself.
	case cs.part == nil || len(claims) == 1:
		cs.of(claims[0].Key).overheard()
	case err == nil:
		for _, c := range cs.ofAll(claims) {
			c.overheard()
		}
	}
}

// maybeBack is [circuit.maybeBack], for claims.
func (cs *circuits) maybeBack(claims []Claim) {
	for _, c := range cs.ofAll(claims) {
		c.maybeBack()
	}
}
