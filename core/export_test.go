package core

import (
	"fmt"
	"time"
)

// JumpWall has the engine's wall clock be ahead by so much from now on.
func (e *Engine) JumpWall(by time.Duration) {
	e.watchdog.mu.Lock()
	defer e.watchdog.mu.Unlock()
	jumped := time.Now()
	e.watchdog.clock.wall = func(t time.Time) time.Time {
		if t.Before(jumped) {
			return t.Round(0)
		}
		return t.Round(0).Add(by)
	}
}

// Margin is how much earlier than the store a lease is given up.
var Margin = margin

// NewOwner makes one owner as an engine does.
func NewOwner() string { return newOwnerSource().next() }

// CleanHost is what becomes of a host name.
var CleanHost = cleanHost

// Left names what an engine still keeps books on; after Close, nothing.
func (e *Engine) Left() string {
	e.watchdog.mu.Lock()
	defer e.watchdog.mu.Unlock()
	e.life.mu.Lock()
	defer e.life.mu.Unlock()
	lines, waiting := e.lines.Len(), e.lines.Waiting()
	if len(e.watchdog.heap)+e.life.held.n+lines+e.life.active == 0 && waiting == 0 {
		return ""
	}
	return fmt.Sprintf("%d in the watchdog, %d held, %d lines with %d waiting, %d active",
		len(e.watchdog.heap), e.life.held.n, lines, waiting, e.life.active)
}

// JSON is the codec that results are stored with.
var JSON Codec = jsonCodec{}

// HashKey is how a key is carried.
var HashKey = hashKey

// DoneWith counts the leases whose Done is closed with l's.
func DoneWith(l *Lease) int {
	l.engine.watchdog.mu.Lock()
	defer l.engine.watchdog.mu.Unlock()
	return len(l.deadline.nested)
}

// Lines is how many lines there are.
func Lines(e *Engine) int { return e.lines.Len() }

// NextLook is when the watchdog looks at its leases next.
func (e *Engine) NextLook() time.Time {
	e.watchdog.mu.Lock()
	defer e.watchdog.mu.Unlock()
	return e.watchdog.look
}

// Waiting is how many callers wait in line, without those that ask the store.
func Waiting(e *Engine) int { return e.lines.Waiting() }

// MostDebts is how many unanswered releases an engine keeps.
const MostDebts = mostDebts
