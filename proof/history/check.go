package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// Check returns what is wrong with a history: sections that overlap but must not; tokens that
// are out of order; leases that were used after they were taken away; and keys that were
// claimed only exclusively, but did not behave as a lock.
func Check(sections []Section) error {
	byKey := map[string][]Section{}
	for _, s := range sections {
		for _, c := range s.Claims {
			byKey[c.Key] = append(byKey[c.Key], s)
		}
	}
	errs := []error{lost(sections)}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		errs = append(errs, overlaps(key, byKey[key]), order(key, byKey[key]))
		if !slices.ContainsFunc(byKey[key], func(s Section) bool { return mode(s, key) != driver.ModeExclusive || s.Shared < Never }) {
			errs = append(errs, linear(key, byKey[key]))
		}
	}
	return errors.Join(errs...)
}

func mode(s Section, key string) driver.Mode {
	c, _ := s.on(key)
	return c.Mode
}

// overlaps checks what is held together (A1, M1). Where sections must not overlap, it also
// checks that their tokens are in the order in which they were held (A3).
func overlaps(key string, sections []Section) error {
	var held []Section
	var highest [driver.ModePermit + 1]uint64 // token, by mode
	for _, s := range split(sections) {
		if s.Given >= s.End {
			continue // nobody acted under it, or nobody knows
		}
		held = slices.DeleteFunc(held, func(h Section) bool { return h.End <= s.Given })
		c, _ := s.on(key)
		for _, h := range held {
			had, _ := h.on(key)
			if excludes(had.Mode, c.Mode) {
				return fmt.Errorf("%s was held %v by %s and %v by %s for %d ns together", key, had.Mode, h, c.Mode, s, min(h.End, s.End)-s.Given)
			}
		}
		for m, token := range highest {
			if excludes(driver.Mode(m), c.Mode) && s.Token < token {
				return fmt.Errorf("%s: %s comes after token %d", key, s, token)
			}
		}
		highest[c.Mode] = max(highest[c.Mode], s.Token)
		held = append(held, s)
		if c.Mode == driver.ModePermit && len(held) > c.Permits {
			return fmt.Errorf("%s was held by %d together, one of them for %d permits: %s", key, len(held), c.Permits, s)
		}
	}
	return nil
}

// excludes reports whether leases of these modes cannot be in force together.
func excludes(a, b driver.Mode) bool { return a != b || a == driver.ModeExclusive }

func (s Section) String() string {
	return fmt.Sprintf("acquisition %d of process %d (token %d, from %d to %d)", s.Nr, s.Process, s.Token, s.Given, s.End)
}

// order checks the tokens: none comes twice, and a request that was made after another's grant
// gets a greater one (A3).
func order(key string, sections []Section) error {
	granted := slices.DeleteFunc(slices.Clone(sections), func(s Section) bool { return !s.granted() })
	seen := map[uint64]Section{}
	for _, s := range granted {
		if other, ok := seen[s.Token]; ok {
			return fmt.Errorf("%s: two have one token: %s, %s", key, other, s)
		}
		seen[s.Token] = s
	}
	asked := slices.SortedFunc(slices.Values(granted), func(a, b Section) int { return cmp.Compare(a.Asked, b.Asked) })
	var last Section // the last of those granted before the next one was requested
	for _, s := range asked {
		for len(granted) > 0 && granted[0].Given < s.Asked {
			if granted[0].Token > last.Token {
				last = granted[0]
			}
			granted = granted[1:]
		}
		if s.Token < last.Token {
			return fmt.Errorf("%s: %s, asked for at %d, comes after %s", key, s, s.Asked, last)
		}
	}
	return nil
}
