package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// reason is the reason of all forced releases.
const reason = "it is in the way"

// mostSets is how many sets may wait at a time. If all of them are admitted at once, every
// order in which they can go on makes a model.
const mostSets = 4

// silentAfter is after how long a backend may count as silent. The end of a wait is then an outage (A8).
const silentAfter = 200 * time.Millisecond

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
	switch s.op {
	case opAsk:
		if s.wait && len(s.claims) > 1 && r.sets() == mostSets {
			return taken{}, false
		}
		a := r.ask(s)
		r.do(func(m *backend) { m.Ask(a.owner, a.claims, s.ttl, s.wait, s.once) })
		return taken{what: fmt.Sprintf("#%d %#v", len(r.asked), s)}, true
	case opAgain, opChange:
		return r.again(s)
	case opShare:
		return r.share(s)
	case opRenew, opPart, opExpire:
		return r.renew(s)
	case opBorrow:
		return r.borrow(s)
	case opRelease:
		return r.release(s)
	case opGiveUp:
		a := r.choose(s.who, r.waits)
		if a == nil {
			return taken{}, false
		}
		gaveUp := time.Now()
		a.cancel()
		r.do(func(m *backend) { m.GiveUp(a.owner) })
		<-a.done
		a.said.late = !r.Exact && time.Since(gaveUp) >= silentAfter
		return r.took(a, "gives up"), true
	case opComplete:
		return r.complete(s)
	case opForget:
		had, err := r.Stores[0].Forget(r.ctx, s.key)
		r.do(func(m *backend) { m.Forget(s.key) })
		a := ended(err)
		if had {
			a.found = something
		}
		return taken{fmt.Sprintf("forget %s", s.key), []answer{a}}, true
	case opAdvance:
		newest, err := r.Stores[int(s.version)%len(r.Stores)].AdvanceVersion(r.ctx, s.key, s.version, s.ttl)
		r.do(func(m *backend) { m.AdvanceVersion(s.key, s.version, s.ttl) })
		a := ended(err)
		a.found = fmt.Sprint(newest)
		return taken{fmt.Sprintf("%#v", s), []answer{a}}, true
	case opForce:
		return r.force(s)
	case opBreak:
		return r.forceOne(s)
	case opList:
		said := ended(r.list())
		r.do(func(m *backend) { m.say(expected{kind: fine}) })
		return taken{"list", []answer{said}}, true
	case opPass:
		if !r.Exact {
			return taken{}, false
		}
		r.pass(s.ttl)
		return taken{what: fmt.Sprintf("%v pass", s.ttl)}, true
	}
	return taken{}, false
}

func (r *run) took(a *acquisition, what string, answers ...answer) taken {
	return taken{fmt.Sprintf("#%d %s", 1+slices.Index(r.asked, a), what), answers}
}

// again asks once more for what a holds, in another mode if the step says so.
func (r *run) again(s Step) (taken, bool) {
	a := r.choose(s.who, func(a *acquisition) bool { return r.whole(a) && (s.op == opAgain || !a.once) })
	if a == nil {
		return taken{}, false
	}
	claims := slices.Clone(a.claims)
	for i := range claims {
		if s.op == opChange {
			claims[i].Mode, claims[i].Permits = s.mode, 0
		}
		if claims[i].Mode == driver.ModePermit {
			claims[i].Permits = max(claims[i].Permits, 1)
		}
	}
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute) // behind others it would wait without end
	defer cancel()
	said := a.send(ctx, driver.Request{Owner: a.owner, Claims: claims, TTL: s.ttl, Wait: s.count > 1})
	r.do(func(m *backend) { m.Again(a.owner, claims, s.ttl) })
	if said.kind == granted {
		a.claims, a.ttl = claims, s.ttl
		a.said.grant.Claims = claims
	}
	return r.took(a, fmt.Sprintf("asks again for %v", claims), said), true
}

func (r *run) force(s Step) (taken, bool) {
	if !r.free(s.key) {
		return taken{}, false
	}
	asked := time.Now()
	had, err := r.Stores[0].ForceRelease(r.ctx, s.key, reason)
	r.do(func(m *backend) { m.Force(s.key, reason) })
	return taken{fmt.Sprintf("force %s", s.key), []answer{r.forced(asked, had, err)}}, true
}

// forceOne takes a claim of one lease away, if it is still in force (I11).
func (r *run) forceOne(s Step) (taken, bool) {
	a := r.choose(s.who, r.granted)
	if a == nil {
		return taken{}, false
	}
	key := a.claims[s.count%len(a.claims)].Key
	if !r.free(key) {
		return taken{}, false
	}
	g := with(a.said.grant, s.flaw)
	asked := time.Now()
	had, err := r.Stores[0].ForceRelease(r.ctx, key, reason, driver.Holder{Owner: g.Owner, Token: g.Token})
	r.do(func(m *backend) { m.ForceOne(key, reason, a.owner, s.flaw) })
	return r.took(a, fmt.Sprintf("is forced off %s%s", key, s.flaw), r.forced(asked, had, err)), true
}

// forced is the answer to a forced release.
func (r *run) forced(asked time.Time, had []driver.Holder, err error) answer {
	a := ended(err)
	a.repeated = r.mayRepeat(asked)
	var owners []string
	for _, h := range had {
		owners = append(owners, h.Owner)
	}
	slices.Sort(owners)
	a.found = strings.Join(owners, " ")
	return a
}

// list goes through all pages, and checks that the keys in use are there (I5).
func (r *run) list() error {
	seen, err := r.look()
	if err != nil {
		return err
	}
	for _, records := range []bool{false, true} {
		listed := map[string]bool{}
		q := driver.Listing{Limit: 2, Records: records}
		for first := true; first || q.Cursor != ""; first = false {
			page, next, err := r.Stores[0].List(r.ctx, q)
			if err != nil {
				return err
			}
			for _, info := range page {
				listed[info.Key] = true
			}
			q.Cursor = next
		}
		for _, key := range r.Keys {
			if shows := q.Shows(seen[key]); shows != listed[key] {
				return fmt.Errorf("%s belongs to a listing (with records: %v): %v, and is listed: %v", key, records, shows, listed[key])
			}
		}
	}
	return nil
}
