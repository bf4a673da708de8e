package script

import (
	"crypto/rand"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// Prefix makes the names of what a node keeps. It is the beginning of every lock's name.
type Prefix string

// Lock returns the name of the lock on key, the same as redisstore's.
func (p Prefix) Lock(key string) string { return string(p) + key }

// Mark returns the name of the key that says since when a node votes. It belongs to no lock.
func (p Prefix) Mark() string { return "{" + string(p) + "}:born" }

// Key has the names of one key. The braces keep the name of a side key from being the name of
// another lock.
type Key struct {
	Lock, Counter, Turn, Line, Forced string
}

// Of returns the names of key.
func (p Prefix) Of(key string) Key {
	lock := string(p) + key
	tag := "{" + lock + "}:"
	return Key{Lock: lock, Counter: tag + "t", Turn: tag + "turn", Line: tag + "line", Forced: tag + "f"}
}

// KeyOf returns the key whose lock is called name, if there is one.
func (p Prefix) KeyOf(name string) (key string, ok bool) {
	key, ok = strings.CutPrefix(name, string(p))
	return key, ok && driver.ValidateKey(key) == nil
}

// NewInbox returns the name of a channel that no other store has.
func (p Prefix) NewInbox() string { return string(p) + "inbox:" + rand.Text() }
