package redisstore

import (
	"strconv"
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

// size is about how many bytes it takes.
func (p *brief) size() int {
	return 64 + len(p.key) + len(p.owner) + len(p.notes) + len(p.rest)
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
