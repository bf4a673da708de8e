package core

import (
	"context"
	"sync"
)

// gate lets one in at a time. It is no mutex because the wait has a bound, and no
// channel because most who come find it free. The zero value is open.
type gate struct {
	mu   sync.Mutex
	busy bool
	free chan struct{} // closed when it is free; nil: nobody waits
}

// enter reports false when ctx ended first. A gate that is free is entered also
// when ctx has ended.
func (g *gate) enter(ctx context.Context) bool {
	for {
		free := g.try()
		if free == nil {
			return true
		}
		select {
		case <-free:
		case <-ctx.Done():
			return g.try() == nil
		}
	}
}

// try returns nil when it went in, else what to wait for.
func (g *gate) try() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.busy {
		g.busy = true
		return nil
	}
	if g.free == nil {
		g.free = make(chan struct{})
	}
	return g.free
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = false
	if g.free != nil {
		close(g.free)
		g.free = nil
	}
}
