package etcdstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// errAgain says that a set has lost a part, or needs a greater token, while it was sealed.
var errAgain = errors.New("etcdstore: begin again")

// decideInParts grants a set that is too great for one transaction of etcd. It takes the claims part
// by part, in the order of the keys, as a request does that waits. Then it gives all of them one
// token.
func (a *acquisition) decideInParts(ctx context.Context) (answer, error) {
	for {
		var p parts
		ans, err := a.takeParts(ctx, &p)
		if err != nil || ans.held != nil {
			return ans, err
		}
		if !p.whole {
			if p.token, err = a.sealParts(ctx, p.last); errors.Is(err, errAgain) {
				continue
			}
		}
		return answer{grant: a.grant(p.token, 0, a.hold, p.contended)}, err
	}
}

// parts is what was seen of the claims of a set when they were taken.
type parts struct {
	last      uint64 // the greatest token that was ever given for one of the keys
	contended bool
	whole     bool   // the set was granted before, with
	token     uint64 // this token
}

// takeParts takes all claims, or stops where one is held.
func (a *acquisition) takeParts(ctx context.Context, p *parts) (answer, error) {
	done := 0
	var ans answer
	err := inParts(a.req.Claims, func(claims []driver.Claim) error {
		var token uint64
		var whole bool
		err := a.s.transact(ctx, driver.Keys(claims), look, func(t *tx) error {
			a.confirm(t)
			ans = answer{}
			reach, err := a.reach(t, claims)
			if err != nil {
				return err
			}
			if reach < len(claims) {
				ans, err = a.stop(t, claims, reach)
				return err
			}
			a.leaveQueues(t, -1)
			token, whole = a.whole(t.locks)
			for i, l := range t.locks {
				if _, err := a.take(t, l, claims[i]); err != nil {
					return err
				}
				p.last = max(p.last, l.Last)
				p.contended = p.contended || len(l.members.Waiters()) > 0
			}
			return nil
		})
		if err == nil && ans.held != nil {
			return errStopped
		}
		p.whole = whole && (done == 0 || p.whole && token == p.token)
		p.token = token
		done += len(claims)
		return err
	})
	switch {
	case errors.Is(err, errStopped):
		return ans, a.giveBack(ctx, done)
	case err != nil:
		return answer{}, err
	}
	return answer{}, nil
}

// errStopped says that a claim is held.
var errStopped = errors.New("etcdstore: a claim is held")

// giveBack ends the parts that a request holds although it may not: all before the part that begins
// with claim number done if it does not wait, and all behind it in any case. It may have lost a part
// that it had taken, and must not wait for one while it holds what is behind.
func (a *acquisition) giveBack(ctx context.Context, done int) error {
	drop := func(claims []driver.Claim) error {
		err := a.s.transact(ctx, driver.Keys(claims), look, func(t *tx) error {
			a.leaveQueues(t, -1)
			a.dropParts(t, 0)
			return nil
		})
		return err
	}
	var err error
	if !a.req.Wait {
		err = inParts(a.req.Claims[:done], drop)
	}
	if behind := done + keysPerTxn; a.hold != nil && a.hold.used && behind < len(a.req.Claims) {
		err = errors.Join(err, inParts(a.req.Claims[behind:], drop))
	}
	return err
}

// sealParts gives all claims one token, which is greater than last and than any other of their keys.
// If a reader has got a greater one of a shared key meanwhile, that part gets a greater token still,
// and then all others do.
func (a *acquisition) sealParts(ctx context.Context, last uint64) (uint64, error) {
	token, _ := driver.NextTokens(last, time.Now(), 0)
	all := slices.Collect(slices.Chunk(a.req.Claims, keysPerTxn))
	for i, left := 0, len(all); left > 0; i = (i + 1) % len(all) {
		var next uint64
		err := a.s.transact(ctx, driver.Keys(all[i]), look, func(t *tx) error {
			next = token
			sealed, last := true, uint64(0)
			for _, l := range t.locks {
				m := l.members.Holding(a.req.Owner, 0)
				if m == nil {
					return errAgain
				}
				sealed = sealed && !m.Partial && m.Token == token
				last = max(last, l.Last)
			}
			if sealed {
				return nil
			}
			if last >= token {
				next, _ = driver.NextTokens(last, time.Now(), 0)
			}
			for _, l := range t.locks {
				a.seal(l, next)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		if next != token {
			token, left = next, len(all)
		}
		left--
	}
	return token, nil
}
