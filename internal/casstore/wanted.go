package casstore

import "sync/atomic"

// Wanted tells the engine that leases of its own are in somebody's way: see OnWanted of [driver.Description].
// The zero value has no engine. It is safe for concurrent use.
type Wanted struct {
	engine atomic.Pointer[func(key, owner string)]
}

// On is the OnWanted of the store's description.
func (w *Wanted) On(f func(key, owner string)) { w.engine.Store(&f) }

// HasEngine reports whether there is an engine, so that its leases may linger.
func (w *Wanted) HasEngine() bool { return w.engine.Load() != nil }

// Tell tells the engine that a lease is wanted or, with empty texts, that messages may have been missed. No mutex
// of the store may be held: the engine may release the lease at once.
func (w *Wanted) Tell(key, owner string) {
	if f := w.engine.Load(); f != nil {
		(*f)(key, owner)
	}
}
