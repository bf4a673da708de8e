package rule

import (
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

// Join makes one rule of several that cover the same requests, such as a group's and a user's. A
// request takes the keys of all as one set, each in the mode of its rule. The engine takes sets in the
// order of keys, so requests do not deadlock, in whatever order the rules stand.
//
// The options of the set are those of the first rule. The others may only have a mode: otherwise
// nobody could say which maximum wait counts.
func Join[R any](rules ...*Rule[R]) (*Rule[R], error) {
	first := rules[0]
	if first.parts != nil { // it was joined before
		rules = append(slices.Clip(first.parts), rules[1:]...)
		first = rules[0]
	}
	joint := &Rule[R]{Name: first.Name, engine: first.engine, parts: rules}
	joint.policy, _ = author.Modeless(first.policy)
	joint.alone = []core.CallOption{joint.policy}
	joint.keys = joint.all
	about := coverage.Rule{Partial: true, Skips: first.info.Skips}
	var err error
	for i, r := range rules {
		switch template := r.info.Key; {
		case r.Once:
			err = errors.New("a rule of Once has its key alone: want no other rule beside it")
		case slices.ContainsFunc(rules[:i], func(o *Rule[R]) bool { return o.info.Key == template && template != "func" }):
			err = fmt.Errorf("there is already one with the key %s", template)
		case i > 0 && !r.modeOnly:
			err = errors.New("several rules are one set: give options other than the mode to the first of them only")
		}
		joint.like = append(joint.like, fmt.Sprintf("%s/%d", r.like[0], i)) // two rules may have one example
		if i > 0 {
			about.Key += " + "
		}
		about.Key += r.info.Key
		about.Partial = about.Partial && r.info.Partial
	}
	if err == nil {
		joint.info, err = author.Declare(first.engine, author.Rule{Policy: joint.policy, About: about, Like: joint.like})
	}
	if err != nil {
		return nil, fmt.Errorf("rule for %q: %w", first.Name, err)
	}
	return joint, nil
}

// Infos describes each of the rules that cover a request, for reports.
func (r *Rule[R]) Infos() []coverage.Rule {
	if r.parts == nil {
		return []coverage.Rule{r.Info()}
	}
	infos := make([]coverage.Rule, len(r.parts))
	for i, p := range r.parts {
		infos[i] = p.Info()
	}
	return infos
}

// all makes the keys of all rules, and their claims.
func (r *Rule[R]) all(req R) (all Keys, err error) {
	at := make(map[string]int)
	for _, p := range r.parts {
		keys, err := p.keys(req)
		if err != nil {
			return Keys{}, err
		}
		if keys.skipped {
			continue
		}
		if all.First == "" {
			all.First = keys.First
		}
		for _, key := range keys.All() {
			for _, c := range p.claim(key) {
				i, twice := at[c.Key]
				if !twice {
					at[c.Key] = len(all.claims)
					all.claims = append(all.claims, c)
				} else if all.claims[i] != c { // neither mode may be enough for both
					all.claims[i] = core.Exclusive(c.Key)
				}
			}
		}
	}
	if len(all.claims) > driver.MaxClaims {
		return Keys{}, fmt.Errorf("%w: %d keys; the maximum is %d", core.ErrInvalidKey, len(all.claims), driver.MaxClaims)
	}
	all.skipped = all.claims == nil
	return all, nil
}

// claim is the key in the rule's mode, with its levels.
func (r *Rule[R]) claim(key string) []core.Claim {
	claims := []core.Claim{core.Exclusive(key)}
	if r.info.Hierarchy {
		claims = core.Under(key)
	}
	leaf := &claims[len(claims)-1]
	leaf.Mode, leaf.Permits = r.info.Mode, r.info.Permits
	return claims
}
