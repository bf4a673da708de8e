package redisstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// counted reports whether a message may be the grant. It may not for a set, which may need more
// than this key, for a record, which has to be read first, or with replicas, which have to be
// waited for.
func (a *acquisition) counted() bool {
	return len(a.req.Claims) == 1 && !a.once && a.s.cfg.replicas == 0
}

// passed makes a grant of m without asking once more. That is safe if m answers the last
// question: the lock was then passed on after that question was sent, and from then on it is
// kept for this waiter for the claim time, however late the message arrives. A message that
// answers an earlier question may be about a time that has run out. So may one that comes when
// little of the claim time is left.
func (a *acquisition) passed(m script.Message) (answer, bool) {
	if m.Question == 0 || m.Question != a.number {
		return answer{}, false
	}
	since, claim := a.last.Attempts.First, a.claim()
	if time.Since(since) > claim-claim/3 {
		return answer{}, false
	}
	return answer{grant: driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Term: claim, Token: m.Token, HandOffs: m.HandOffs, Since: since,
		Lingers: a.inbox != "" && a.lingers(),
		// The process that had the lock until now may be back in the queue at any moment.
		Contended: !m.Alone, Resent: a.resent,
	}}, true
}
