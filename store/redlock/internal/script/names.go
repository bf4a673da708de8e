package script

import "github.com/keyturn/keyturn/store/internal/onredis"

// Names makes the names of what a node keeps.
type Names struct{ onredis.Prefix }

// Mark returns the name of the key that says since when a node votes. It belongs to no lock.
func (n Names) Mark() string { return "{" + string(n.Prefix) + "}:born" }

// Key has the names of one key. The braces keep the name of a side key from being the name of
// another lock.
type Key struct {
	Lock, Counter, Turn, Line, Forced string
}

// Of returns the names of key.
func (n Names) Of(key string) Key {
	lock := n.Lock(key)
	tag := "{" + lock + "}:"
	return Key{Lock: lock, Counter: tag + "t", Turn: tag + "turn", Line: tag + "line", Forced: tag + "f"}
}
