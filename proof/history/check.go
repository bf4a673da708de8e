package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/keyturn/keyturn/core/driver"
)

// Violation is something wrong with a history.
type Violation struct {
	Key      string
	From, To int64 // when it shows
	Text     string
}

func (v *Violation) Error() string { return v.Key + ": " + v.Text }

// wrong makes a violation that shows between the beginning of the first section and the end of the last.
func wrong(key string, a, b Section, format string, args ...any) error {
	until := max(a.Given, b.Given)
	return &Violation{Key: key, From: min(a.Given, b.Given), To: until, Text: fmt.Sprintf(format, args...)}
}

// Check returns what is wrong with a history: sections that overlap but must not; tokens that
// are out of order; leases that were used after they were taken away; and keys that were
// claimed only exclusively, but did not behave as a lock. Each error in it is a [*Violation].
// What the losses explain is not wrong.
func Check(sections []Section, losses ...Loss) error {
	sections = withBeginnings(sections)
	byKey := map[string][]Section{}
	for _, s := range sections {
		for _, c := range s.Claims {
			byKey[c.Key] = append(byKey[c.Key], s)
		}
	}
	errs := []error{lost(sections, losses)}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		errs = append(errs, overlaps(key, forgive(split(byKey[key]), losses)), order(key, streaks(byKey[key], losses)))
		if !slices.ContainsFunc(byKey[key], func(s Section) bool { return mode(s, key) != driver.ModeExclusive || s.Shared < Never }) {
			errs = append(errs, linear(key, streaks(byKey[key], losses), losses))
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
//
// After a loss the tokens still rise, but a holder that was forgotten may be the later one.
func overlaps(key string, sections []Section) error {
	var held []Section
	var highest [driver.ModePermit + 1]uint64 // token, by mode
	for _, s := range sections {
		if s.Given >= s.End {
			continue // nobody acted under it, or nobody knows
		}
		held = slices.DeleteFunc(held, func(h Section) bool { return h.End <= s.Given })
		c, _ := s.on(key)
		for _, h := range held {
			had, _ := h.on(key)
			if excludes(had.Mode, c.Mode) {
				return wrong(key, h, s, "was held %v by %s and %v by %s for %d ns together", had.Mode, h, c.Mode, s, min(h.End, s.End)-s.Given)
			}
		}
		for m, token := range highest {
			if excludes(driver.Mode(m), c.Mode) && s.Token < token {
				return wrong(key, s, s, "%s comes after token %d", s, token)
			}
		}
		highest[c.Mode] = max(highest[c.Mode], s.Token)
		held = append(held, s)
		if c.Mode == driver.ModePermit && len(held) > c.Permits {
			return wrong(key, held[0], s, "was held by %d together, one of them for %d permits: %s", len(held), c.Permits, s)
		}
	}
	return nil
}

// Overlaps counts how often a section began while another one on the same key, which excludes it,
// was in force.
func Overlaps(sections []Section) int {
	n := 0
	last := map[string]int64{} // end of the last section, by key
	for _, s := range sections {
		if s.Given >= s.End || len(s.Claims) != 1 {
			continue
		}
		key := s.Claims[0].Key
		if s.Given < last[key] {
			n++
		}
		last[key] = max(last[key], s.End)
	}
	return n
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
			return wrong(key, other, s, "two have one token: %s, %s", other, s)
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
			return wrong(key, last, s, "%s, asked for at %d, comes after %s", s, s.Asked, last)
		}
	}
	return nil
}
