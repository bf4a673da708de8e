package sqlstore

import (
	"context"
	"encoding/hex"
	"strings"
)

// Leases that linger, and how their engines learn that somebody else wants the key: the row of such
// a lease names the inbox of its process. Only PostgreSQL can send messages, so only there leases
// linger, and only if the store has a waker.

// want is a message that a lease is in somebody's way.
type want struct{ inbox, key, owner string }

// payload is the message: the owner and the key. The key is in hexadecimal digits, because the
// database may have another encoding.
func (w want) payload() string { return w.owner + " " + hex.EncodeToString([]byte(w.key)) }

// parseWant reads a message. ok is false for the message of a turn, which is only an owner.
func parseWant(message string) (w want, ok bool) {
	owner, digits, ok := strings.Cut(message, " ")
	key, err := hex.DecodeString(digits)
	return want{owner: owner, key: string(key)}, ok && err == nil
}

// want notes that somebody wants l, or has taken it by force.
func (t *tx) want(l *lock) {
	if h := l.single(); h != nil && h.lingers() {
		t.wanted = append(t.wanted, want{h.inbox, l.key, h.owner})
	}
}

// mayLinger reports whether the engine may keep the lease that is asked for: messages reach this
// process now. If they stop, the engine is told of that later.
func (a *acquisition) mayLinger() bool {
	return a.req.Linger && !a.once && isPlain(a.req.Claims) && a.s.wanted.Load() != nil && a.s.hears()
}

// onWanted is the OnWanted of the store's description.
func (s *Store) onWanted(f func(key, owner string)) { s.wanted.Store(&f) }

// tellWanted tells the engine that a lease of its own is wanted. No mutex may be held: the engine
// may release the lease at once.
func (s *Store) tellWanted(key, owner string) {
	if f := s.wanted.Load(); f != nil {
		(*f)(key, owner)
	}
}

// tell tells this process of its own leases. The others got messages with the transaction.
func (s *Store) tell(wanted []want) {
	for _, w := range wanted {
		if w.inbox == s.inbox() {
			s.tellWanted(w.key, w.owner)
		}
	}
}

// identity is the Identity of the store's description: the server that sends the messages. It asks
// for nothing.
func (s *Store) identity(context.Context) (string, error) {
	return s.cfg.waker.Server()
}
