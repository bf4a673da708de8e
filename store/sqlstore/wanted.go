package sqlstore

import (
	"encoding/hex"
	"strings"
)

// Leases that linger, and how their engines learn that somebody else wants the key: the row of such
// a lease names the inbox of its process. Only PostgreSQL can send messages, so only there leases
// linger, and only if the store has a waker.

// wantedMessage says that a lease is in somebody's way: the owner and the key. The key is in hexadecimal digits,
// because the database may have another encoding.
func wantedMessage(key, owner string) string { return owner + " " + hex.EncodeToString([]byte(key)) }

// parseWanted reads a message. ok is false for the message of a turn, which is only an owner.
func parseWanted(message string) (key, owner string, ok bool) {
	owner, digits, ok := strings.Cut(message, " ")
	text, err := hex.DecodeString(digits)
	return string(text), owner, ok && err == nil
}

// mayLinger reports whether the engine may keep the lease that is asked for: messages reach this
// process now. If they stop, the engine is told of that later.
func (a *acquisition) mayLinger() bool {
	return a.Linger && !a.Once && isPlain(a.Claims) && a.s.wanted.HasEngine() && a.s.hears()
}
