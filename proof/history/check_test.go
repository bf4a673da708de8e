package history_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/proof/history"
)

var check = checktest.That

var errNothing = errors.New("nothing")

// says checks that an error says all that, or that there is none.
func says(t *testing.T, err error, all []string) {
	t.Helper()
	if err == nil {
		err = errNothing
	} else if len(all) == 0 {
		t.Errorf("the checker complains: %v", err)
	}
	for _, want := range all {
		check(t, strings.Contains(err.Error(), want), "the checker says %q, want %q in it", err, want)
	}
}

// TestSectionsTakenByForce: a section that may have been taken by force counts against nobody.
func TestSectionsTakenByForce(t *testing.T) {
	const second = int64(time.Second)
	claims := []driver.Claim{driver.Exclusive("k")}
	// held makes an acquisition of process 1, with its number for an owner.
	held := func(nr int, given, returning int64) []history.Event {
		owner := string(rune('0' + nr))
		return []history.Event{
			{Process: 1, Nr: nr, What: history.Asked, At: given - 1, Claims: claims},
			{Process: 1, Nr: nr, What: history.Given, At: given, Owner: owner, Token: uint64(nr), Until: 10 * second, TTL: time.Second},
			{Process: 1, Nr: nr, What: history.Returning, At: returning},
			{Process: 1, Nr: nr, What: history.Returned, At: returning + 1},
		}
	}
	at := func(what history.What, at int64, owners ...string) history.Event {
		return history.Event{Process: 2, Nr: 1, What: what, At: at, Claims: claims, Owners: owners}
	}
	for name, test := range map[string]struct {
		force []history.Event
		died  map[int]int64
		taken [3]bool // which of the three sections that follow
		told  [3]bool
	}{
		"nothing":                       {},
		"of nobody":                     {force: []history.Event{at(history.Forcing, 15), at(history.Forced, 16)}},
		"answered":                      {force: []history.Event{at(history.Forcing, 15), at(history.Forced, 16, "1")}, taken: [3]bool{true}, told: [3]bool{true}},
		"of who was about to be told":   {force: []history.Event{at(history.Forcing, 5), at(history.Forced, 16, "1")}, taken: [3]bool{true}},
		"unanswered":                    {force: []history.Event{at(history.Forcing, 15), at(history.Unsure, 16)}, taken: [3]bool{true, true, false}},
		"by a process that died of it":  {force: []history.Event{at(history.Forcing, 15)}, died: map[int]int64{2: 17}, taken: [3]bool{true, true, false}},
		"for one holder, unanswered":    {force: []history.Event{at(history.Forcing, 5, "3"), at(history.Unsure, 6)}, taken: [3]bool{false, false, true}},
		"for one holder, who is gone":   {force: []history.Event{at(history.Forcing, 5, "3"), at(history.Denied, 6)}, taken: [3]bool{false, false, true}},
		"by one of which nothing comes": {force: []history.Event{at(history.Forcing, 15)}, taken: [3]bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			events := slices.Concat(held(1, 10, 20), held(2, 30, 40), held(3, 2*second, 3*second), test.force)
			for i, s := range history.Sections(events, test.died) {
				taken, told := s.Taken < history.Never, s.Told < history.Never
				check(t, taken == test.taken[i] && told == test.told[i] && s.End == min(s.Returning, s.Taken), "%s: taken %v and told %v", s, taken, told)
			}
		})
	}
}

// A history behind Sentinel was called wrong because a lease counted until its holder looked: the holder had been told
// of the loss, and slept, and the permit had others by then.
func TestAHolderThatWasToldOfALossCountsNoMore(t *testing.T) {
	sections := history.Sections([]history.Event{
		{Process: 1, Nr: 1, What: history.Asked, At: 1, Claims: []driver.Claim{driver.Permit("k", 2)}},
		{Process: 1, Nr: 1, What: history.Given, At: 2, Owner: "o", Token: 1, Until: 90},
		{Process: 1, Nr: 1, What: history.Noticed, At: 10},
		{Process: 1, Nr: 1, What: history.Holding, At: 11, Until: 90},
		{Process: 1, Nr: 1, What: history.Returning, At: 50},
		{Process: 1, Nr: 1, What: history.Gone, At: 51},
	}, nil)
	check(t, len(sections) == 1 && sections[0].End == 10 && sections[0].Answered == 51 && sections[0].Outcome == history.Gone, "%+v", sections)
}

// TestCheck has the histories that the stores at hand can't be made to leave.
func TestCheck(t *testing.T) {
	section := func(claim driver.Claim, token uint64, asked, given, end int64) history.Section {
		return sectionOf(claim, "", token, asked, given, end)
	}
	x, r, p := driver.Exclusive("k"), driver.Shared("k"), driver.Permit("k", 2)
	unanswered := history.Section{Claims: []driver.Claim{x}, Asked: 5, Given: history.Never, Returning: history.Never, Answered: history.Never}
	killed := section(x, 1, 0, 1, 9)
	killed.Returning, killed.Answered, killed.Outcome = history.Never, history.Never, ""
	stopped := section(x, 1, 0, 20, 8) // before it heard of its lease
	stopped.Returning, stopped.Answered, stopped.Outcome = 21, 22, history.Gone
	sharedFrom := func(at int64, s history.Section) history.Section {
		s.Shared = at
		return s
	}
	// taken by force between two moments.
	taken := func(began, ended int64, s history.Section) history.Section {
		s.Taken, s.Told, s.End, s.Outcome = began, ended, min(s.End, began), history.Gone
		return s
	}
	unaware, givenBack, handedOn := taken(4, 5, section(r, 1, 0, 1, 30)), taken(4, 5, section(r, 1, 0, 1, 9)), taken(4, 5, section(x, 1, 0, 1, 9))
	givenBack.Outcome, handedOn.Outcome = history.Returned, history.Returned
	tooLate := taken(4, 5, section(x, 2, 6, 7, 9)) // handed on when there was nothing any more
	for _, test := range []struct {
		name     string
		sections []history.Section
		says     []string
	}{
		{"a reader beside one who was a writer", []history.Section{sharedFrom(5, section(x, 1, 0, 1, 9)), section(r, 2, 0, 6, 12)}, nil},
		{"a reader beside one who is still a writer", []history.Section{sharedFrom(7, section(x, 1, 0, 1, 9)), section(r, 2, 0, 6, 12)}, []string{"exclusive by", "shared by"}},
		{"a writer beside one who was one", []history.Section{sharedFrom(5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 6, 12)}, []string{"shared by", "exclusive by"}},
		{"a writer after one who was one", []history.Section{sharedFrom(5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 9, 12)}, nil},
		{"a writer after one whose lease was taken", []history.Section{taken(4, 5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 5, 12)}, nil},
		{"a writer before anybody began to take it", []history.Section{taken(4, 5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 3, 12)}, []string{"together", "exclusive lock"}},
		{"a lease that goes on after it was taken", []history.Section{unaware}, []string{"was renewed"}},
		{"a lease that is given back after it was taken", []history.Section{givenBack}, []string{"was given back"}},
		{"what was taken is handed on", []history.Section{handedOn, section(x, 3, 2, 5, 12), tooLate}, nil},
		{"readers together", []history.Section{section(r, 1, 0, 1, 9), section(r, 2, 0, 2, 9)}, nil},
		{"as many permits as there are", []history.Section{section(p, 1, 0, 1, 9), section(p, 2, 0, 2, 9), section(p, 3, 0, 9, 12)}, nil},
		{"one permit too many", []history.Section{section(p, 1, 0, 1, 9), section(p, 2, 0, 2, 9), section(p, 3, 0, 8, 12)}, []string{"by 3 together"}},
		{"a reader beside a writer", []history.Section{section(x, 1, 0, 1, 9), section(r, 2, 0, 8, 12)}, []string{"exclusive by", "shared by"}},
		{"a permit beside a reader", []history.Section{section(r, 1, 0, 1, 9), section(p, 2, 0, 8, 12)}, []string{"together"}},
		{"two writers", []history.Section{section(x, 1, 0, 1, 9), section(x, 2, 0, 8, 12)}, []string{"together", "exclusive lock"}},
		{"a smaller token later", []history.Section{section(r, 2, 0, 1, 9), section(r, 1, 2, 3, 9)}, []string{"comes after"}},
		{"a smaller token of one who asked before", []history.Section{section(r, 2, 0, 3, 9), section(r, 1, 2, 4, 9)}, nil},
		{"a reader after a writer with a greater token", []history.Section{section(x, 2, 0, 1, 5), section(r, 1, 0, 8, 12)}, []string{"comes after"}},
		{"a token twice", []history.Section{section(x, 1, 0, 1, 2), section(x, 1, 0, 3, 4)}, []string{"one token", "exclusive lock"}},
		{"exclusive out of order", []history.Section{section(x, 2, 0, 1, 5), section(x, 1, 0, 8, 12)}, []string{"exclusive lock"}},
		{"after one who was killed", []history.Section{killed, unanswered, section(x, 2, 3, 9, 12)}, nil},
		{"while one who was granted it is stopped", []history.Section{stopped, section(x, 2, 3, 9, 12)}, nil},
		{"too soon after one who was killed", []history.Section{killed, section(x, 2, 3, 8, 12)}, []string{"together", "exclusive lock"}},
	} {
		t.Run(test.name, func(t *testing.T) { says(t, history.Check(test.sections), test.says) })
	}
}
