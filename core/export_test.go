package core

import "time"

// SetWall replaces the engine's wall clock.
func (e *Engine) SetWall(now func() time.Time) {
	e.watchdog.mu.Lock()
	defer e.watchdog.mu.Unlock()
	e.watchdog.clock.wall = now
}

// Margin is how much earlier than the store a lease is given up.
var Margin = margin

// NewOwner makes one owner as an engine does.
func NewOwner() string { return newOwnerSource().next() }

// CleanHost is what becomes of a host name.
var CleanHost = cleanHost
