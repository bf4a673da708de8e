package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// flaw is what is wrong with a grant that an owner presents.
type flaw int

const (
	sound      flaw = iota
	wrongToken      // one that the lease never had
	noToken         // 0: the owner was not told its token
	wrongMode       // of the first claim
)

func (f flaw) String() string {
	return [...]string{"", " with another token", " without a token", " in another mode"}[f]
}

// mine returns owner's lease for c, if the grant with this flaw entitles to it.
func (m *backend) mine(owner string, c driver.Claim, flaw flaw) *lease {
	l := m.at(c.Key).lease(owner)
	if flaw == wrongToken || l == nil || l.partial {
		return nil
	}
	return l
}

// lost says that owner no longer has claims, and why; the reason of any of them is right. An
// owner with a wrong token never had the lease, so nobody took it away.
func (m *backend) lost(owner string, claims []driver.Claim, flaw flaw) expected {
	a := expected{kind: lost}
	if flaw != sound && flaw != noToken {
		return a
	}
	for _, c := range claims {
		switch k := m.at(c.Key); {
		case m.mine(owner, c, sound) == nil:
			a.reasons = append(a.reasons, k.forced[owner]) // I7
		case k.phase != c.Mode: // a downgrade that another claim's loss ended has changed it
			a.reasons = append(a.reasons, "")
		}
	}
	return a
}

// prolong gives another term to the claims that are owner's and that may says can have it: to all or none, unless
// they are apart. It returns those that got it, and the answer.
func (m *backend) prolong(owner string, claims []driver.Claim, flaw flaw, may func(driver.Claim, *lease) bool, give func(*lease)) ([]driver.Claim, expected) {
	if flaw == noToken {
		flaw = wrongToken // a renewal must have the token (N5)
	}
	mine := slices.DeleteFunc(slices.Clone(claims), func(c driver.Claim) bool {
		l := m.mine(owner, c, flaw)
		return l == nil || !may(c, l)
	})
	said := expected{kind: fine}
	if len(mine) < len(claims) {
		said = m.lost(owner, claims, flaw)
		if !m.SeparateClaims {
			mine = nil
		}
	}
	for _, c := range mine {
		give(m.mine(owner, c, flaw))
	}
	return mine, said
}

// Renew gives all claims a full TTL (N1 to N6).
func (m *backend) Renew(owner string, claims []driver.Claim, flaw flaw, ttl time.Duration) {
	_, said := m.prolong(owner, claims, flaw,
		func(c driver.Claim, _ *lease) bool { return m.at(c.Key).phase == c.Mode },
		func(l *lease) { l.ends, l.ttl = m.now+ttl, ttl })
	m.say(said)
}

// Downgrade is a renewal in modes of which some may be shared instead of exclusive (M5, M7).
func (m *backend) Downgrade(owner string, claims []driver.Claim, flaw flaw, ttl time.Duration) {
	mine, said := m.prolong(owner, claims, flaw, func(c driver.Claim, _ *lease) bool {
		phase := m.at(c.Key).phase
		return phase == c.Mode || phase == driver.ModeExclusive && c.Mode == driver.ModeShared
	}, func(l *lease) { l.ends, l.ttl = m.now+ttl, ttl })
	m.say(said)
	r := m.requests[owner]
	r.claims = slices.Clone(r.claims)
	for _, c := range mine {
		if k := m.at(c.Key); k.phase != c.Mode {
			k.phase = c.Mode
			m.callIn(slices.DeleteFunc(slices.Clone(k.queue), func(t ticket) bool { return t.claim.Mode != driver.ModeShared }))
		}
		r.claims[slices.IndexFunc(r.claims, func(o driver.Claim) bool { return o.Key == c.Key })] = c
	}
}

// Borrow is the renewal by a process that was told of the lease (N7). It never ends a lease
// sooner. If it asks for more than the owner did, it is a stranger's.
func (m *backend) Borrow(owner string, claims []driver.Claim, flaw flaw, ttl time.Duration) {
	_, said := m.prolong(owner, claims, flaw,
		func(c driver.Claim, l *lease) bool { return m.at(c.Key).phase == c.Mode && ttl <= l.ttl },
		func(l *lease) { l.ends = max(l.ends, m.now+ttl) })
	for _, c := range claims {
		if l := m.mine(owner, c, flaw); said.kind == lost && l != nil && flaw == sound && ttl > l.ttl {
			said.reasons = append(said.reasons, "") // nobody took it away
		}
	}
	m.say(said)
}

// Release frees those of claims that are owner's (R1, R2, R5).
func (m *backend) Release(owner string, claims []driver.Claim, flaw flaw) {
	if slices.ContainsFunc(claims, func(c driver.Claim) bool { return m.mine(owner, c, flaw) == nil }) {
		m.say(m.lost(owner, claims, flaw))
	} else {
		m.say(expected{kind: fine})
	}
	for _, c := range claims {
		if m.mine(owner, c, flaw) != nil {
			m.leave(owner, c.Key)
		}
	}
}

// Complete keeps a record and releases, in one step (L4 to L6). Requests that wait for the same
// execution need not wait any more (L2).
func (m *backend) Complete(owner string, claim driver.Claim, flaw flaw, rec record, retention time.Duration) {
	key := claim.Key
	switch {
	case m.mine(owner, claim, flaw) != nil:
		m.say(expected{kind: fine})
	case m.recorded(key) && m.records[key].owner == owner:
		m.say(expected{kind: fine}) // L5
		return
	default:
		m.say(m.lost(owner, []driver.Claim{claim}, flaw))
		return
	}
	rec.owner, rec.ends = owner, m.now+retention
	m.records[key] = rec
	k := m.at(key)
	k.queue = slices.DeleteFunc(k.queue, func(t ticket) bool {
		r := m.requests[t.owner]
		if r.once {
			r.answer = m.recordOf(key)
		}
		return r.once
	})
	m.leave(owner, key)
}

func (m *backend) recorded(key string) bool {
	r, ok := m.records[key]
	return ok && m.now < r.ends
}

// recordOf answers with the record of key (L7).
func (m *backend) recordOf(key string) expected {
	return expected{kind: recorded, found: m.records[key].String()}
}

// AdvanceVersion keeps the greatest version, for the retention after the last call that was no question
// (L9 to L11). It does not affect leases and records, nor they it (L12).
func (m *backend) AdvanceVersion(key string, n uint64, retention time.Duration) {
	newest := max(n, m.version(key))
	if n > 0 {
		m.versions[key] = version{newest, m.now + retention}
	}
	m.say(expected{kind: fine, found: fmt.Sprint(newest)})
}

// version returns the version in force; 0: none.
func (m *backend) version(key string) uint64 {
	if v := m.versions[key]; m.now < v.ends {
		return v.n
	}
	return 0
}

// something is the answer of Forget if it found anything.
const something = "something"

// Forget drops a record, and the version (I10).
func (m *backend) Forget(key string) {
	a := expected{kind: fine}
	if m.recorded(key) || m.version(key) > 0 {
		a.found = something
	}
	m.say(a)
	delete(m.records, key)
	delete(m.versions, key)
}

// Force ends all leases on key (I7, I8).
func (m *backend) Force(key, reason string) {
	k := m.at(key)
	var had []string
	for _, l := range k.holders {
		had = append(had, l.owner)
		k.forced[l.owner] = reason
	}
	slices.Sort(had)
	m.say(expected{kind: fine, found: strings.Join(had, " ")})
	m.tell(key, mustBe)
	k.holders = nil
	m.admit(key)
}

// ForceOne ends owner's lease on key, if it is in force and the token fits (I11).
func (m *backend) ForceOne(key, reason, owner string, flaw flaw) {
	k := m.at(key)
	i := slices.IndexFunc(k.holders, func(l lease) bool { return l.owner == owner && flaw != wrongToken })
	switch {
	case len(k.holders) == 0:
		m.say(expected{kind: fine})
		return
	case i < 0:
		m.say(expected{kind: refused, key: key})
		return
	}
	k.forced[owner] = reason
	m.say(expected{kind: fine, found: owner})
	m.tell(key, mustBe)
	k.holders = slices.Delete(k.holders, i, i+1)
	m.admit(key)
}

// Pass lets time go by. Leases end in time (A2, M4), one after the other, and each end may
// admit others. Like Do, it does not change m.
func (m *backend) Pass(d time.Duration) []*backend {
	n := m.clone()
	n.answers = nil
	return distinct(n.passTo(m.now + d))
}

func (m *backend) passTo(until time.Duration) []*backend {
	next := until
	for _, k := range m.locks {
		for _, l := range k.holders {
			if !l.partial {
				next = min(next, l.ends)
			}
		}
	}
	m.now = next
	var all []*backend
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
func (m *backend) reap() []*backend {
	all := []*backend{m}
	for _, key := range slices.Sorted(maps.Keys(m.locks)) {
		var after []*backend
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
