package memstore

import "github.com/keyturn/keyturn/core/driver"

// inquiry is a request with what the memory needs to know of the store that it came through.
type inquiry struct {
	driver.Request
	wanted func(key, owner string) // tells that store's engine that the lease is wanted; nil: the lease does not linger
}

// from makes an inquiry of req.
func (s *Store) from(req driver.Request) inquiry {
	r := inquiry{Request: req}
	if f := s.wanted.Load(); f != nil && req.Linger {
		r.wanted = *f
	}
	return r
}

// onWanted is the OnWanted of the store's description.
func (s *Store) onWanted(f func(key, owner string)) { s.wanted.Store(&f) }

// want is a message to the engine of a lease that is in somebody's way. The zero value is none.
type want struct {
	tells      func(key, owner string)
	key, owner string
}

// tell sends the message. No mutex may be held: the engine may release the lease at once.
func (w want) tell() {
	if w.tells != nil {
		w.tells(w.key, w.owner)
	}
}

// want returns the message that the key of e is wanted.
func (e *entry) want() want {
	if len(e.holders) == 0 || e.phase.Mode != driver.ModeExclusive {
		return want{} // a lease that was downgraded does not linger
	}
	h := e.holders[0]
	return want{tells: h.wanted, key: e.key, owner: h.owner}
}
