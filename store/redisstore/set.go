package redisstore

import (
	"cmp"
	"context"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// askAll asks for several groups.
//
// A set whose claims are spread over a Cluster or Ring, or are too many for one script call, is
// asked for group by group, in key order. (Within a group, the script goes claim by claim.)
// Granted groups are kept while a later one is waited for, and each round extends them. Nothing
// is held behind the claim that is waited for. So all sets take their claims in one order, and
// no two of them deadlock.
func (a *acquisition) askAll(ctx context.Context, getInLine bool) (answer, error) {
	for {
		var tokens []uint64
		for i := range a.groups {
			ans, err := a.ask(ctx, i, getInLine)
			if err != nil || ans.record != nil {
				return ans, err
			}
			if ans.held {
				return a.stop(ctx, i, ans)
			}
			tokens = append(tokens, ans.grant.Token)
		}
		if ans, sealed, err := a.seal(ctx, tokens); sealed || err != nil {
			return ans, err
		}
		// Something ran out meanwhile, or has a greater token, so start again.
	}
}

// stop is for a set that cannot go on for now. It gives back what the set holds from an earlier
// round behind the claim in its way. If the set does not wait, it gives back everything.
func (a *acquisition) stop(ctx context.Context, group int, ans answer) (answer, error) {
	var back []driver.Claim
	for i, claims := range a.groups[:a.asked] {
		if i > group || i < group && !a.req.Wait {
			back = append(back, claims...)
			a.stuck[i] = 0
		}
	}
	if len(back) == 0 {
		return ans, nil
	}
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitloop.Grace)
	defer cancel()
	if a.giveBack(brief, back) == nil && a.req.Wait {
		a.asked = group + 1
	}
	return ans, nil // if that failed, it goes on in the background
}

// seal gives the groups of a complete set one token: the highest of theirs. It is greater than
// that of any earlier grant of each key, and becomes the last token of all keys. seal also
// renews the groups, because the first was granted some round trips ago. It reports false if
// one of them has been lost meanwhile, or needs a greater token than that, because others have
// been granted it beside this set.
//
// If an owner asks again for what it holds, all groups have the same token already, and keep
// it.
func (a *acquisition) seal(ctx context.Context, tokens []uint64) (answer, bool, error) {
	highest := tokens[0]
	for _, token := range tokens {
		highest = max(highest, token)
	}
	parts := make([]part, len(a.groups))
	for i, claims := range a.groups {
		r := &send.Request{Replicas: a.s.cfg.replicas}
		a.s.keys.Seal(&r.Call, a.req.Owner, claims, a.req.TTL, highest, a.remarks())
		parts[i] = part{r, claims}
	}
	tidy := func() {
		a.isOver()
		a.undo(a.req.Claims)
	}
	if !a.s.sender.Await(ctx, send.LateFunc(tidy), requests(parts)) {
		return answer{}, false, a.unanswered(ctx)
	}
	grant := driver.Grant{Owner: a.req.Owner, Claims: a.req.Claims, TTL: a.req.TTL, Token: highest, Resent: a.resent}
	var worst error
	for _, p := range parts {
		err := verdict(p.Request, "acquire", p.claims, grant)
		// The lease counts from the earliest part.
		if grant.Since.IsZero() || p.Attempts.Last.Before(grant.Since) {
			grant.Since = p.Attempts.Last
		}
		if worst == nil || isTaken(worst) {
			worst = cmp.Or(err, worst)
		}
	}
	switch {
	case worst == nil:
		return answer{grant: grant}, true, nil
	case isTaken(worst) && ctx.Err() == nil:
		return answer{}, false, nil
	}
	a.s.calls.Go(tidy)
	if ctx.Err() != nil {
		return answer{}, false, a.unanswered(ctx)
	}
	return answer{}, false, worst
}
