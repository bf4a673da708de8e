package redisstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// counted says whether a message may be the grant. Not for a set, which may need
// more than this key; nor where a record has to be looked for first, or replicas
// waited for.
func (a *acquisition) counted() bool {
	return len(a.req.Claims) == 1 && !a.once && a.s.cfg.replicas == 0
}

// passed makes a grant of m, without acquisition once more. That is safe if m was sent to
// the entry that the last question made: then the lock was passed on after that was
// sent, and is kept for us for the claim time from then on, whenever it was that we
// hear of it. A message to an entry from before may be about a time that has run
// out since; and so may one that comes when little of the claim time is left.
func (a *acquisition) passed(m script.Message) (answer, bool) {
	if m.Question == 0 || m.Question != a.number {
		return answer{}, false
	}
	since, claim := a.last.Attempts.First, a.claim()
	if time.Since(since) > claim-claim/3 {
		return answer{}, false
	}
	return answer{grant: driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Term: claim, Token: m.Token, Since: since,
		// By the process that had it until now, which may get back in line at any moment.
		Contended: !m.Alone,
	}}, true
}
