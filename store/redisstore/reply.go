package redisstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// read reads the answer about a group.
func (a *acquisition) read(r *send.Request, group int) (answer, error) {
	claims := a.groups[group]
	said, err := r.Acquired(len(claims))
	switch {
	case err != nil:
		return answer{}, err
	case said.Outcome == script.Done:
		return answer{record: said.Record}, nil
	case said.Outcome == script.Held:
		return a.heldBy(group, said), nil
	case said.Outcome == script.Own:
		wanted := claims[said.Claim]
		return answer{}, &driver.DeadlockError{
			Key: wanted.Key, Held: driver.Claim{Key: wanted.Key, Mode: said.Mode}, Wanted: wanted, Once: a.once,
		}
	}
	return a.granted(r, said)
}

// heldBy notes who is in the way.
func (a *acquisition) heldBy(group int, said script.Acquired) answer {
	now := time.Now()
	a.stuck[group] = said.Claim + 1
	// A foreign client may write the same value each time. Its next lease ends later, if it ends.
	ends := said.Now + said.Room.Milliseconds()
	if said.Room < 0 {
		ends = 0
	}
	if a.sameSince.IsZero() || a.holder != said.Holder || said.Holder.Foreign() && ends > a.holderEnds+1 {
		a.holder, a.holderEnds, a.sameSince = said.Holder, ends, now
	}
	held := driver.HeldError{
		Key: a.groups[group][said.Claim].Key, Holder: said.Holder.Owner, Trace: said.Holder.Trace,
		RetryAfter: max(said.Room, 0), Ahead: said.Ahead, HeldFor: said.Holder.HeldFor(said.Now),
	}
	switch {
	case said.Holder.Lingers:
		held.HeldFor = 0 // only its engine knows since when the present holder has had it (A12)
	case held.HeldFor == 0: // a foreign client does not say since when, but it has been there for this long
		held.HeldFor = now.Sub(a.sameSince)
	}
	if a.last.Patient {
		a.s.signsLate.Store(int64(max(now.Sub(a.state.At)-a.state.Within, 0)))
	}
	// A dead holder and a foreign client send nothing when their lease runs out, and the other
	// waiters may have left by then. Nor does the waiter in front, if it gets the lock right now
	// and dies.
	a.state = waitloop.State{Held: held, At: now, Changes: [...]time.Duration{said.First, said.NextTerm}}
	return answer{held: true}
}

func (a *acquisition) granted(r *send.Request, said script.Acquired) (answer, error) {
	if err := confirmed(r); err != nil {
		return answer{}, err
	}
	// A batch reserves as many as the one that wants most (A13).
	handOffs := min(said.HandOffs, a.req.HandOffs)
	// Every attempt gives a full TTL, so the attempt that was answered counts. Its sending is
	// before the server's grant.
	return answer{grant: driver.Grant{
		Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: said.Token, HandOffs: handOffs,
		Since: r.Attempts.Last, Contended: said.Contended, Resent: a.resent,
		Lingers: a.inbox != "" && a.lingers(),
	}}, nil
}
