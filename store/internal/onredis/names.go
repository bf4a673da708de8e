package onredis

import (
	"crypto/rand"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/driver"
)

// CheckPrefix returns the error of the option WithPrefix. A brace in front of a key would choose its slot.
func CheckPrefix(prefix string) error {
	const most = 128
	bad := func(r rune) bool { return r == '{' || r == '}' || unicode.IsSpace(r) || unicode.IsControl(r) }
	ok := len(prefix) <= most && utf8.ValidString(prefix) && !strings.ContainsFunc(prefix, bad)
	return driver.CheckOption(ok, "WithPrefix", prefix[:min(len(prefix), most)], "at most 128 bytes of UTF-8 without braces, white space and control characters")
}

// Prefix is the beginning of every lock's name.
type Prefix string

// Lock returns the name of the lock on key.
func (p Prefix) Lock(key string) string { return string(p) + key }

// KeyOf returns the key whose lock is called name, if there is one.
func (p Prefix) KeyOf(name string) (key string, ok bool) {
	key, ok = strings.CutPrefix(name, string(p))
	return key, ok && driver.ValidateKey(key) == nil
}

// NewInbox returns the name of a channel that no other store has.
func (p Prefix) NewInbox() string { return string(p) + "inbox:" + rand.Text() }

const (
	// ListDefault is how many keys a page of a List has if the caller gives no limit, and how many one script
	// inspects at most: beside it, the server serves nobody.
	ListDefault = 100
	// ScanMost is how many keys a server looks at in one SCAN, which takes it some tenths of a millisecond.
	ScanMost = 1000
	// ScansPerPage bounds the work for a page of a database with many keys that are not locks.
	ScansPerPage = 20
)

// Glob escapes s, so that every character stands for itself in a pattern of Redis.
func Glob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
