package redisstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// message is what a waiter is told when the lock has been passed to it; pass in
// line.lua and hand in group.lua write it. The zero value says no more than to look.
type message struct {
	question uint64 // the number of the one that made the waiter's entry
	token    uint64
	alone    bool // no other process wants the lock, or had it just now
}

// parseMessage gives what the owner named is to be told: what is no message of
// pass's, or comes without a number, is a reason to look.
func parseMessage(text string) (owner string, m message) {
	fields := strings.Split(text, " ")
	alone := len(fields) == 4 && fields[3] == "alone"
	if len(fields) != 3 && !alone {
		return fields[0], message{}
	}
	question, err := strconv.ParseUint(fields[1], 10, 64)
	token, bad := strconv.ParseUint(fields[2], 10, 64)
	if err != nil || bad != nil {
		return fields[0], message{}
	}
	return fields[0], message{question: question, token: token, alone: alone}
}

// counted says whether a message may be the grant. Not for a set, which may need
// more than this key; nor where a record has to be looked for first, or replicas
// waited for.
func (a *asking) counted() bool {
	return len(a.req.Claims) == 1 && !a.once && a.s.cfg.replicas == 0
}

// passed makes a grant of m, without asking once more. That is safe if m was sent to
// the entry that the last question made: then the lock was passed on after that was
// sent, and is kept for us for the claim time from then on, whenever it was that we
// hear of it. A message to an entry from before may be about a time that has run
// out since; and so may one that comes when little of the claim time is left.
func (a *asking) passed(m message) (answer, bool) {
	if m.question == 0 || m.question != a.number {
		return answer{}, false
	}
	since, claim := a.last.wire.first, a.claim()
	if time.Since(since) > claim-claim/3 {
		return answer{}, false
	}
	return answer{grant: driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Term: claim, Token: m.token, Since: since,
		// By the process that had it until now, which may get back in line at any moment.
		Contended: !m.alone,
	}}, true
}
