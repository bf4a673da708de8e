package proof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// reason is the reason of all forced releases.
const reason = "it is in the way"

// mostSets is how many sets may wait at a time. If all of them are admitted at once, every
// order in which they can go on makes a model.
const mostSets = 4

// sets counts the sets that wait.
func (r *run) sets() int {
	n := 0
	for _, a := range r.asked {
		if r.waits(a) && len(a.claims) > 1 {
			n++
		}
	}
	return n
}

// taken is a step that was taken: what the stores were asked, and their answers.
type taken struct {
	what    string
	answers []answer
}

func (t taken) String() string {
	said := t.what
	for _, a := range t.answers {
		said += ": " + a.String()
	}
	return said
}

// step takes a step on both sides; false: no owner can take it.
func (r *run) step(s Step) (taken, bool) {
	switch s.Op {
	case Ask:
		if s.Wait && len(s.Claims) > 1 && r.sets() == mostSets {
			return taken{}, false
		}
		a := r.ask(s)
		r.do(func(m *Model) { m.Ask(a.owner, a.claims, s.TTL, s.Wait, s.Once) })
		return taken{what: fmt.Sprintf("#%d %#v", len(r.asked), s)}, true
	case Again, Change:
		return r.again(s)
	case Renew, Part, Expire:
		return r.renew(s)
	case Release:
		return r.release(s)
	case GiveUp:
		a := r.choose(s.Who, r.waits)
		if a == nil {
			return taken{}, false
		}
		a.cancel()
		r.do(func(m *Model) { m.GiveUp(a.owner) })
		<-a.done
		return r.took(a, "gives up"), true
	case Complete:
		return r.complete(s)
	case Forget:
		had, err := r.Stores[0].Forget(r.ctx, s.Key)
		r.do(func(m *Model) { m.Forget(s.Key) })
		a := ended(err)
		if had {
			a.had = "a record"
		}
		return taken{fmt.Sprintf("forget %s", s.Key), []answer{a}}, true
	case Force:
		return r.force(s)
	case List:
		said := ended(r.list())
		r.do(func(m *Model) { m.say(Answer{Kind: Fine}) })
		return taken{"list", []answer{said}}, true
	case Pass:
		if !r.Exact {
			return taken{}, false
		}
		r.pass(s.TTL)
		return taken{what: fmt.Sprintf("%v pass", s.TTL)}, true
	}
	return taken{}, false
}

func (r *run) took(a *acquisition, what string, answers ...answer) taken {
	return taken{fmt.Sprintf("#%d %s", 1+slices.Index(r.asked, a), what), answers}
}

// again asks once more for what a holds, in another mode if the step says so.
func (r *run) again(s Step) (taken, bool) {
	a := r.choose(s.Who, func(a *acquisition) bool { return r.whole(a) && (s.Op == Again || !a.once) })
	if a == nil {
		return taken{}, false
	}
	claims := slices.Clone(a.claims)
	for i := range claims {
		if s.Op == Change && (s.Mode != driver.ModeShared || claims[i].Mode == driver.ModeExclusive) {
			claims[i].Mode, claims[i].Permits = s.Mode, 0
		}
		if claims[i].Mode == driver.ModePermit {
			claims[i].Permits = max(claims[i].Permits, 1)
		}
	}
	said := a.send(r.ctx, driver.Request{Owner: a.owner, Claims: claims, TTL: s.TTL, Wait: s.Wait})
	r.do(func(m *Model) { m.Again(a.owner, claims, s.TTL) })
	if said.kind == Granted {
		a.claims = claims
		a.said.grant.Claims = claims
	}
	return r.took(a, fmt.Sprintf("asks again for %v", claims), said), true
}

func (r *run) force(s Step) (taken, bool) {
	if !r.free(s.Key) {
		return taken{}, false
	}
	had, err := r.Stores[0].ForceRelease(r.ctx, s.Key, reason)
	r.do(func(m *Model) { m.Force(s.Key, reason) })
	a := ended(err)
	var owners []string
	for _, h := range had {
		owners = append(owners, h.Owner)
	}
	slices.Sort(owners)
	a.had = strings.Join(owners, " ")
	return taken{fmt.Sprintf("force %s", s.Key), []answer{a}}, true
}

// list goes through all pages, and checks that the keys in use are there (I5).
func (r *run) list() error {
	seen, err := r.look()
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, next, err := r.Stores[0].List(r.ctx, "", cursor, 2)
		if err != nil {
			return err
		}
		for _, info := range page {
			listed[info.Key] = true
		}
		cursor = next
	}
	for _, key := range r.Keys {
		used := len(seen[key].Holders)+len(seen[key].Waiters) > 0 || seen[key].Record != nil
		if used != listed[key] {
			return fmt.Errorf("%s is in use: %v, and listed: %v", key, used, listed[key])
		}
	}
	return nil
}
