package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// read takes in the reply of acquire.lua about a group.
func (a *asking) read(r *request, group int) (answer, error) {
	if r.err != nil {
		return answer{}, r.err
	}
	if token, ok := r.value.(int64); ok {
		return a.granted(r, uint64(token), false) // to a plain request
	}
	reply := fields(r.value)
	kind := ""
	if len(reply) > 1 {
		kind, _ = reply[0].(string)
	}
	claims := a.groups[group]
	switch {
	case kind == "granted":
		token, err := strconv.ParseUint(text(reply[1]), 10, 64)
		if err != nil {
			return answer{}, fmt.Errorf("%w: token %.30q", ErrCorrupt, text(reply[1]))
		}
		return a.granted(r, token, len(reply) > 2 && number(reply[2]) > 0)
	case kind == "done":
		rec, err := decode(text(reply[1]))
		return answer{record: rec}, err
	case kind == "held" && len(reply) == 8 && number(reply[1]) < int64(len(claims)):
		i := number(reply[1])
		return a.heldBy(claims[i].Key, group, int(i)+1, reply[2:]), nil
	case kind == "own" && len(reply) == 3 && number(reply[1]) < int64(len(claims)):
		wanted := claims[number(reply[1])]
		return answer{}, &driver.DeadlockError{
			Key: wanted.Key, Held: driver.Claim{Key: wanted.Key, Mode: modeOf(text(reply[2]))}, Wanted: wanted, Once: a.once,
		}
	}
	return answer{}, fmt.Errorf("%w: reply %.100v", ErrCorrupt, reply)
}

func fields(value any) []any {
	a, _ := value.([]any)
	return a
}

func text(field any) string {
	s, _ := field.(string)
	return s
}

func number(field any) int64 {
	n, _ := field.(int64)
	return n
}

func millis(field any) time.Duration { return time.Duration(number(field)) * time.Millisecond }

// heldBy takes in who is in the way: the holder's value, ms until there may be
// room, ms until the first holder may be gone, the claim time of the one ahead,
// how many are, and the server's time.
func (a *asking) heldBy(key string, group, claim int, reply []any) answer {
	holder, room := parseValue(text(reply[0])), millis(reply[1])
	a.told = time.Now()
	a.stuck[group] = claim
	if a.holder != holder {
		a.holder, a.sameSince = holder, a.told
	}
	a.held = driver.HeldError{
		Key: key, Holder: holder.owner, Trace: holder.trace, RetryAfter: max(room, 0), Ahead: int(number(reply[4])),
		HeldFor: holder.heldFor(number(reply[5])),
	}
	if a.held.HeldFor == 0 { // a foreign client's does not say; but it has been there for that long
		a.held.HeldFor = a.told.Sub(a.sameSince)
	}
	return answer{held: true, ttl: millis(reply[2]), ahead: millis(reply[3])}
}

func (a *asking) granted(r *request, token uint64, contended bool) (answer, error) {
	if err := r.confirmed(); err != nil {
		return answer{}, err
	}
	// Every attempt gives a full TTL, so the one that was answered counts; the
	// moment of its writing is before the server's.
	return answer{grant: driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: token, Since: r.wire.last, Contended: contended,
	}}, nil
}
