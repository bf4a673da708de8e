package etcdstore

import (
	"context"
	"errors"
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
		ans, err := a.takeParts(ctx)
		if err != nil || ans.held != nil {
			return ans, err
		}
		ans.grant.Token, err = a.sealParts(ctx, ans.grant.Token)
		if errors.Is(err, errAgain) {
			continue
		}
		return ans, err
	}
}

// takeParts takes all claims, or stops where one is held. The grant's token is the greatest that was
// ever given for one of its keys.
func (a *acquisition) takeParts(ctx context.Context) (answer, error) {
	done, contended := 0, false
	var highest uint64
	var ans answer
	err := inParts(a.req.Claims, func(claims []driver.Claim) error {
		_, err := a.s.transact(ctx, keysOf(claims), true, func(t *tx) error {
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
			for i, l := range t.locks {
				if _, err := a.take(t, l, claims[i]); err != nil {
					return err
				}
				highest = max(highest, l.Last)
				contended = contended || len(l.waiters()) > 0
			}
			return nil
		})
		if err == nil && ans.held != nil {
			return errStopped
		}
		done += len(claims)
		return err
	})
	switch {
	case errors.Is(err, errStopped):
		return ans, a.giveBack(ctx, done)
	case err != nil:
		return answer{}, err
	}
	return answer{grant: a.grant(highest, 0, a.hold, contended)}, nil
}

// errStopped says that a claim is held.
var errStopped = errors.New("etcdstore: a claim is held")

// giveBack ends the parts that a request holds although it may not: all before the part that begins
// with claim number done if it does not wait, and all behind it in any case. It may have lost a part
// that it had taken, and must not wait for one while it holds what is behind.
func (a *acquisition) giveBack(ctx context.Context, done int) error {
	drop := func(claims []driver.Claim) error {
		_, err := a.s.transact(ctx, keysOf(claims), true, func(t *tx) error {
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
// If a reader got a greater one of a shared key meanwhile, it begins again.
func (a *acquisition) sealParts(ctx context.Context, last uint64) (uint64, error) {
	token, _ := driver.NextTokens(last, time.Now(), 0)
	if old, whole, err := a.wholeParts(ctx); err != nil || whole {
		return old, err
	}
	err := inParts(a.req.Claims, func(claims []driver.Claim) error {
		_, err := a.s.transact(ctx, keysOf(claims), true, func(t *tx) error {
			for _, l := range t.locks {
				m := l.holding(a.req.Owner, 0)
				if m == nil || l.Last >= token && m.Token != token {
					return errAgain
				}
			}
			for _, l := range t.locks {
				if m := l.holding(a.req.Owner, 0); m.Partial || m.Token != token {
					a.seal(l, token)
				}
			}
			return nil
		})
		return err
	})
	return token, err
}

// wholeParts returns the token of the set, if it was granted before.
func (a *acquisition) wholeParts(ctx context.Context) (token uint64, whole bool, err error) {
	whole = true
	err = inParts(a.req.Claims, func(claims []driver.Claim) error {
		t := &tx{s: a.s, ctx: ctx}
		if err := t.load(keysOf(claims)); err != nil {
			return err
		}
		part, ok := a.whole(t.locks)
		whole = whole && ok && (token == 0 || token == part)
		token = part
		return nil
	})
	return token, whole, err
}
