package core

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/keyturn/keyturn/core/observe"
)

// Wall is the wall clock of an engine that is made with it. It can jump.
type Wall struct {
	mu sync.Mutex
	at time.Time
	by time.Duration

	Looks atomic.Int64 // how often it was looked at
}

// Jump has the clock be ahead by so much from now on.
func (w *Wall) Jump(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.by = time.Now(), by
}

func (w *Wall) applyEngine(c *engineConfig) error {
	c.wall = func(t time.Time) time.Time {
		w.Looks.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Before(w.at) {
			return t
		}
		return t.Add(w.by)
	}
	return nil
}

// Left names what an engine still keeps books on; after Close, nothing.
func (e *Engine) Left() string {
	held, active := len(e.life.held()), 0
	for i := range e.life.registers {
		active += e.life.registers[i].entered()
	}
	lines, waiting := e.lines.Len(), e.lines.Waiting()
	if held+lines+active == 0 && waiting == 0 && !e.backend().lingers.Any() {
		return ""
	}
	return fmt.Sprintf("%d held, %d lines with %d waiting, %d active, lingering: %t", held, lines, waiting, active, e.backend().lingers.Any())
}

func (r *register) entered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active
}

// LeaseBytes is the size of a lease with a grant of its own, without its owner, key and claims.
const LeaseBytes = unsafe.Sizeof(Lease{})

// Lines is how many lines there are.
func Lines(e *Engine) int { return e.lines.Len() }

// Waiting is how many callers wait in line, without those that ask the store.
func Waiting(e *Engine) int { return e.lines.Waiting() }

// Observed is l as hooks see it.
func Observed(l *Lease) observe.Lease { return seen(l) }
