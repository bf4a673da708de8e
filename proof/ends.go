package proof

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Flaw is what is wrong with a grant that an owner presents.
type Flaw int

// The flaws.
const (
	Sound      Flaw = iota
	WrongToken      // one that the lease never had
	NoToken         // 0: the owner was not told its token
	WrongMode       // of the first claim
)

// mine returns owner's lease for c, if the grant with this flaw entitles to it.
func (m *Model) mine(owner string, c driver.Claim, flaw Flaw) *lease {
	l := m.at(c.Key).lease(owner)
	if flaw == WrongToken || l == nil || l.partial {
		return nil
	}
	return l
}

// lost says that owner no longer has claims, and why; the reason of any of them is right. An
// owner with a wrong token never had the lease, so nobody took it away.
func (m *Model) lost(owner string, claims []driver.Claim, flaw Flaw) Answer {
	a := Answer{Kind: Lost}
	for _, c := range claims {
		if m.mine(owner, c, Sound) == nil && (flaw == Sound || flaw == NoToken) {
			a.Reasons = append(a.Reasons, m.at(c.Key).forced[owner]) // I7
		}
	}
	return a
}

// Renew gives all claims a full TTL (N1 to N6): all or none, unless they are apart.
func (m *Model) Renew(owner string, claims []driver.Claim, flaw Flaw, ttl time.Duration) {
	if flaw == NoToken {
		flaw = WrongToken // a renewal must have the token (N5)
	}
	mine := slices.DeleteFunc(slices.Clone(claims), func(c driver.Claim) bool {
		return m.mine(owner, c, flaw) == nil || m.at(c.Key).phase != c.Mode
	})
	if len(mine) == len(claims) || m.Apart {
		for _, c := range mine {
			m.mine(owner, c, flaw).ends = m.now + ttl
		}
	}
	if len(mine) == len(claims) {
		m.say(Answer{Kind: Fine})
	} else {
		m.say(m.lost(owner, claims, flaw))
	}
}

// Release frees those of claims that are owner's (R1, R2, R5).
func (m *Model) Release(owner string, claims []driver.Claim, flaw Flaw) {
	if slices.ContainsFunc(claims, func(c driver.Claim) bool { return m.mine(owner, c, flaw) == nil }) {
		m.say(m.lost(owner, claims, flaw))
	} else {
		m.say(Answer{Kind: Fine})
	}
	for _, c := range claims {
		if m.mine(owner, c, flaw) != nil {
			m.leave(owner, c.Key)
		}
	}
}

// Complete keeps a record and releases, in one step (L4 to L6). Requests that wait for the same
// execution need not wait any more (L2).
func (m *Model) Complete(owner string, claim driver.Claim, flaw Flaw, size int, retention time.Duration) {
	key := claim.Key
	switch {
	case m.mine(owner, claim, flaw) != nil:
		m.say(Answer{Kind: Fine})
	case m.recorded(key) && m.records[key].owner == owner:
		m.say(Answer{Kind: Fine}) // L5
		return
	default:
		m.say(m.lost(owner, []driver.Claim{claim}, flaw))
		return
	}
	m.records[key] = record{owner: owner, size: size, ends: m.now + retention}
	k := m.at(key)
	k.queue = slices.DeleteFunc(k.queue, func(t ticket) bool {
		r := m.requests[t.owner]
		if r.once {
			r.answer = Answer{Kind: Recorded}
		}
		return r.once
	})
	m.leave(owner, key)
}

func (m *Model) recorded(key string) bool {
	r, ok := m.records[key]
	return ok && m.now < r.ends
}

// Forget drops a record (I10).
func (m *Model) Forget(key string) {
	a := Answer{Kind: Fine}
	if m.recorded(key) {
		a.Had = m.records[key].owner
	}
	m.say(a)
	delete(m.records, key)
}

// Force ends all leases on key (I7, I8).
func (m *Model) Force(key, reason string) {
	k := m.at(key)
	var had []string
	for _, l := range k.holders {
		had = append(had, l.owner)
		k.forced[l.owner] = reason
	}
	slices.Sort(had)
	m.say(Answer{Kind: Fine, Had: strings.Join(had, " ")})
	k.holders = nil
	m.admit(key)
}

// Pass lets time go by. Leases end in time (A2, M4), one after the other, and each end may
// admit others. Like Do, it does not change m.
func (m *Model) Pass(d time.Duration) []*Model {
	n := m.clone()
	n.answers = nil
	return distinct(n.passTo(m.now + d))
}

func (m *Model) passTo(until time.Duration) []*Model {
	next := until
	for _, k := range m.locks {
		for _, l := range k.holders {
			if !l.partial {
				next = min(next, l.ends)
			}
		}
	}
	m.now = next
	var all []*Model
	for _, n := range m.reap() {
		for _, n := range n.settle() {
			if n.now == until {
				all = append(all, n)
			} else {
				all = append(all, n.passTo(until)...)
			}
		}
	}
	return all
}

// reap drops leases and records that are over now.
func (m *Model) reap() []*Model {
	all := []*Model{m}
	for _, key := range slices.Sorted(maps.Keys(m.locks)) {
		var after []*Model
		for _, n := range all {
			k := n.at(key)
			before := len(k.holders)
			k.holders = slices.DeleteFunc(k.holders, func(l lease) bool { return !l.partial && l.ends <= n.now })
			if n.Blurred && before > len(k.holders) && len(k.holders) == 0 && len(k.queue) > 0 && k.phase == driver.ModeShared {
				blurred := n.clone()
				blurred.at(key).phase = driver.ModeExclusive
				blurred.admit(key)
				after = append(after, blurred)
			}
			n.admit(key)
			after = append(after, n)
		}
		all = after
	}
	return all
}
