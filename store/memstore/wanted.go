package memstore

import "github.com/keyturn/keyturn/internal/keystate"

// onWanted is the OnWanted of the store's description.
func (s *Store) onWanted(f func(key, owner string)) { s.wanted.Store(&f) }

// tell tells the engine of a lease that it is in somebody's way. No mutex may be held: the engine may
// release the lease at once.
func tell(w *keystate.Wanted) {
	if w == nil {
		return
	}
	s, ok := w.Ref.(*Store)
	if !ok { // the step that asks has also let the holder in, which had waited until then
		s = w.Ref.(*waiter).store
	}
	if f := s.wanted.Load(); f != nil {
		(*f)(w.Key, w.Owner)
	}
}
