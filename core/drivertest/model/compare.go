package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// look reads what the stores show, each key from one of them, and which of the waiters have an
// answer.
func (r *run) look() (map[string]driver.LockInfo, error) {
	for _, a := range r.asked {
		a.look()
	}
	seen := map[string]driver.LockInfo{}
	for i, key := range r.Keys {
		info, err := r.Stores[i%len(r.Stores)].Inspect(r.ctx, key)
		if err != nil {
			return nil, fmt.Errorf("inspect %s: %w", key, err)
		}
		seen[key] = info
	}
	return seen, nil
}

// compare says how the stores differ from m, or nil.
func (r *run) compare(m *backend, said taken, seen map[string]driver.LockInfo) error {
	for i, a := range said.answers {
		if err := differ(a, m.answers[i]); err != nil {
			return fmt.Errorf("the answer: %w", err)
		}
		if a.kind == granted && a.grant.Token != r.tokenOf(a.grant.Owner) {
			return fmt.Errorf("asked again, the token is %d, and was %d", a.grant.Token, r.tokenOf(a.grant.Owner))
		}
	}
	for i, a := range r.asked {
		want, is := m.requests[a.owner].answer, answer{kind: waits, key: m.requests[a.owner].answer.key}
		if a.kind != waits {
			is = a.said
		}
		if err := differ(is, want); err != nil {
			return fmt.Errorf("#%d: %w", i+1, err)
		}
	}
	for _, key := range r.Keys {
		if err := r.compareKey(m, key, seen[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return r.compareTold(m)
}

func differ(is answer, want expected) error {
	forced := want.reasons == nil || slices.Contains(want.reasons, is.why)
	key := is.key == want.key || slices.Contains(strings.Fields(want.key), is.key)
	switch {
	case is.repeated && is.kind == fine && want.kind == lost, is.repeated && errors.Is(is.err, driver.ErrOutcomeUnknown):
		return nil
	case is.late && want.kind == refused && errors.Is(is.err, driver.ErrUnavailable):
		return nil
	}
	if is.kind == want.kind && key && forced && is.found == want.found {
		return nil
	}
	return fmt.Errorf("the store says %v %q %q %q, the model %+v", is, is.key, is.found, is.why, want)
}

// name is the name of an owner in the output of a program that failed.
func (r *run) name(owner string) string {
	i := slices.IndexFunc(r.asked, func(a *acquisition) bool { return a.owner == owner })
	if i < 0 {
		return fmt.Sprintf("%q", owner)
	}
	return fmt.Sprintf("#%d", i+1)
}

func (r *run) tokenOf(owner string) uint64 {
	i := slices.IndexFunc(r.asked, func(a *acquisition) bool { return a.owner == owner })
	return r.asked[i].said.grant.Token
}

// compareKey compares what is shown of a key (I1 to I4).
func (r *run) compareKey(m *backend, key string, info driver.LockInfo) error {
	k := m.at(key)
	var want, is []string
	for _, l := range k.holders {
		want = append(want, r.holder(l.owner, l.partial, l.ends-m.now))
	}
	for _, h := range info.Holders {
		l := k.lease(h.Owner)
		is = append(is, r.holder(h.Owner, l != nil && l.partial, h.Left))
		if l != nil && !l.partial && h.Token != r.tokenOf(h.Owner) {
			return fmt.Errorf("the token of %s is shown as %d", r.name(h.Owner), h.Token)
		}
	}
	slices.Sort(want)
	slices.Sort(is)
	if !slices.Equal(is, want) {
		return fmt.Errorf("the store shows the holders %v, the model %v", is, want)
	}
	if !slices.IsSortedFunc(info.Holders, func(a, b driver.Holder) int { return cmp.Compare(a.Token, b.Token) }) {
		return fmt.Errorf("the holders are not in order of their tokens: %+v", info.Holders)
	}
	if len(is) > 0 && info.Mode != k.phase {
		return fmt.Errorf("the store shows it held %v, the model %v", info.Mode, k.phase)
	}
	want, is = nil, nil
	for _, t := range k.queue {
		want = append(want, fmt.Sprintf("%s for %v of %d", r.name(t.owner), t.claim.Mode, t.claim.Permits))
	}
	for _, w := range info.Waiters {
		is = append(is, fmt.Sprintf("%s for %v of %d", r.name(w.Owner), w.Mode, w.Permits))
	}
	if !slices.Equal(is, want) {
		return fmt.Errorf("the store shows the waiters %v, the model %v", is, want)
	}
	return r.compareRecord(m, key, info.Record)
}

func (r *run) compareRecord(m *backend, key string, info *driver.RecordInfo) error {
	want, is := "none", "none"
	if m.recorded(key) {
		want = fmt.Sprintf("of %s, %s", r.name(m.records[key].owner), m.records[key])
	}
	if info != nil {
		is = fmt.Sprintf("of %s, %s", r.name(info.Owner), record{size: info.Size, notKept: info.ResultNotKept})
	}
	if is != want {
		return fmt.Errorf("the store shows the record %s, the model %s", is, want)
	}
	return nil
}

func (r *run) holder(owner string, partial bool, left time.Duration) string {
	if !r.Exact || partial {
		return r.name(owner)
	}
	return fmt.Sprintf("%s for %v", r.name(owner), left)
}

// lastToken is the greatest token that the grant has reserved.
func lastToken(g driver.Grant) uint64 { return g.Token + g.HandOffs }

// rising checks that each new grant has a greater token than every token of every earlier grant
// of its keys (A3, A13), in the order of m. Readers that enter together may do so in any order.
func (r *run) rising(m *backend) error {
	order := func(a *acquisition) int { return m.requests[a.owner].answer.order }
	fresh := slices.DeleteFunc(slices.Clone(r.asked), func(a *acquisition) bool { return a.kind != granted || a.counted })
	slices.SortFunc(fresh, func(a, b *acquisition) int { return order(a) - order(b) })
	highest, others := maps.Clone(r.highest), maps.Clone(r.highest)
	for _, a := range fresh {
		token, last := a.said.grant.Token, lastToken(a.said.grant)
		for _, c := range a.claims {
			floor := highest[c.Key]
			switch {
			case c.Mode == driver.ModeShared:
				floor = others[c.Key]
			case c.Mode == driver.ModePermit && len(a.claims) > 1 && r.SeparateClaims:
				// The token of a set is that of its last claim, from when the set was admitted
				// there. Permits that were admitted behind it may be granted before.
				floor = 0
			default:
				others[c.Key] = max(others[c.Key], last)
			}
			if token <= floor {
				return fmt.Errorf("%s: token %d of %s comes after %d", c.Key, token, r.name(a.owner), floor)
			}
			highest[c.Key] = max(highest[c.Key], last)
		}
	}
	return nil
}

// count notes the tokens that were found to be right.
func (r *run) count() {
	for _, a := range r.asked {
		if a.kind != granted || a.counted {
			continue
		}
		a.counted = true
		for _, c := range a.claims {
			r.highest[c.Key] = max(r.highest[c.Key], lastToken(a.said.grant))
		}
	}
	for _, m := range r.models {
		m.forget()
	}
	r.models = distinct(r.models)
}
