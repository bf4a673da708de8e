package redisstore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
)

// brief is a request about one exclusive claim in the few words that group.lua
// needs of it. What a request costs the server is mostly the number of its words,
// and the names of all keys that a lock may ever have are most of them.
type brief struct {
	key    string // nothing: the request is not plain
	owner  string
	number int64 // acquire: TTL in ms; release: token
	notes  string
	rest   string // of acquire: what matters when the key is not free
}

// isPlain says whether claims are what a plain request may be about.
func isPlain(claims []core.Claim) bool {
	return len(claims) == 1 && claims[0].Mode == core.ModeExclusive
}

// plainly makes a plain request, which only an only server takes.
func plainly(script *redis.Script, p brief) *request {
	return &request{script: script, brief: p}
}

func (r *request) isPlain() bool { return r.brief.key != "" }

// words adds what group.lua reads of it.
func (r *request) words(args []any) []any {
	p := &r.brief
	if r.script == releaseScript {
		return append(args, "r", p.owner, p.number)
	}
	return append(args, "a", p.owner, p.number, p.notes, p.rest)
}

// full gives a plain request that leaves alone the KEYS and ARGV of its script.
func (r *request) full(ks keyspace) {
	if !r.isPlain() || r.keys != nil {
		return
	}
	p := &r.brief
	r.keys = ks.of(p.key)
	r.args = append(make([]any, 0, 15), p.owner, true, 0, "x", p.number)
	if r.script == acquireScript {
		rest := strings.SplitN(p.rest, " ", 7)
		r.args = append(r.args, rest[0], rest[1], rest[2], rest[6], false, p.notes, rest[3], rest[4], rest[5])
	}
	r.args = append(r.args, &r.wire)
}

// ofWait writes the numbers that a request has to tell when the key is held.
func ofWait(wait bool, patience, claim, waited time.Duration, before int, number uint64, inbox string) string {
	b := make([]byte, 0, 96)
	if wait {
		b = append(b, '1')
	} else {
		b = append(b, '0')
	}
	for _, n := range [...]int64{patience.Milliseconds(), claim.Milliseconds(), waited.Milliseconds(), int64(before)} {
		b = append(b, ' ')
		b = strconv.AppendInt(b, n, 10)
	}
	b = append(b, ' ')
	b = strconv.AppendUint(b, number, 10)
	b = append(b, ' ')
	return string(append(b, inbox...))
}

// compose writes a group as group.lua reads it.
func (ks keyspace) compose(group []*request) (keys []string, args []any) {
	n, nkeys, nargs := 0, 1, 2
	for _, r := range group {
		if r.isPlain() {
			n, nkeys, nargs = n+1, nkeys+3, nargs+5
		} else {
			nkeys, nargs = nkeys+len(r.keys), nargs+3+len(r.args)
		}
	}
	keys, args = make([]string, 1+3*n, nkeys), make([]any, 1, nargs)
	keys[0], args[0] = ks.counter(), n
	lines, locks := keys[1:1+2*n], keys[1+2*n:]
	for _, r := range group {
		if r.isPlain() {
			lines[0], lines[1], locks[0] = ks.waited(r.brief.key)
			lines, locks = lines[2:], locks[1:]
			args = r.words(args)
			continue
		}
		own := r.args[:len(r.args)-1] // without its wire: there is one for all
		keys = append(keys, r.keys...)
		args = append(args, 1+slices.Index(grouped, r.script), len(r.keys), len(own))
		args = append(args, own...)
	}
	return keys, append(args, stamps(group))
}

// stamps is the wire of a whole group.
type stamps []*request

// MarshalBinary implements encoding.BinaryMarshaler.
func (group stamps) MarshalBinary() ([]byte, error) {
	now := time.Now()
	for _, r := range group {
		r.wire.wrote(now)
	}
	return nil, nil
}

// String is for hooks that print commands.
func (stamps) String() string { return "" }
