package proof_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof"
	"github.com/keyturn/keyturn/store/memstore"
)

var errNothing = errors.New("nothing")

// enough programs to find what is wrong with a broken store.
const enough = 500

func TestProgramsFindWhatIsBroken(t *testing.T) {
	for _, broken := range []struct {
		name string
		wrap func(*memstore.Store) driver.Store
	}{
		{"a release forgets to compare the owner", func(s *memstore.Store) driver.Store { return forgetful{s} }},
		{"tokens restart", func(s *memstore.Store) driver.Store { return restarting{s} }},
		{"readers overtake a writer", func(s *memstore.Store) driver.Store { return overtaking{s} }},
		{"a refused set leaves a claim behind", func(s *memstore.Store) driver.Store { return leaving{s} }},
	} {
		t.Run(broken.name, func(t *testing.T) {
			for seed := range enough {
				if err := inMemory(t, programs().Example(seed), broken.wrap); err != nil {
					t.Logf("found by program %d: %v", seed+1, err)
					return
				}
			}
			t.Errorf("%d programs saw nothing", enough)
		})
	}
}

// late plays what goes wrong without owners and tokens: a holder is held up past
// its TTL, wakes, and releases what is another's by now, while others come.
func late(t *testing.T, wrap func(*memstore.Store) driver.Store) []proof.Section {
	var buf bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		store := wrap(memstore.New())
		mono := func(at time.Time) int64 { return at.UnixNano() }
		rec := proof.NewRecorder(1, &buf, func() int64 { return mono(time.Now()) }, mono)
		claims := []driver.Claim{driver.Exclusive("k")}
		// take returns what ends the lease, which is granted or not.
		take := func(owner string, ttl time.Duration) func() {
			nr := rec.Ask(claims)
			called := time.Now()
			time.Sleep(time.Millisecond)
			g, err := store.Acquire(context.Background(), driver.Request{Owner: owner, Claims: claims, TTL: ttl})
			if err != nil {
				return func() {}
			}
			note := func(what proof.What) {
				rec.Note(proof.Event{Nr: nr, What: what, At: rec.Clock(), Token: g.Token, Until: rec.Mono(called.Add(ttl))})
			}
			note(proof.Given)
			return func() {
				note(proof.Returning)
				time.Sleep(time.Millisecond)
				if store.Release(context.Background(), g) == nil {
					note(proof.Returned)
				} else {
					note(proof.Gone)
				}
			}
		}
		first := take("first", time.Second)
		time.Sleep(2 * time.Second)
		second := take("second", time.Minute)
		time.Sleep(time.Second)
		first()
		third := take("third", time.Minute)
		time.Sleep(time.Second)
		second()
		third()
		take("fourth", time.Minute)()
	})
	events, err := proof.ReadEvents(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return proof.Sections(events, nil)
}

func TestHistoriesOfBrokenStoresAreRejected(t *testing.T) {
	for _, test := range []struct {
		name string
		wrap func(*memstore.Store) driver.Store
		says []string // none: it is right
	}{
		{"nothing", whole, nil},
		{
			"a release forgets to compare the owner",
			func(s *memstore.Store) driver.Store { return forgetful{s} },
			[]string{"together", "exclusive lock"},
		},
		{
			"tokens restart",
			func(s *memstore.Store) driver.Store { return restarting{s} },
			[]string{"one token", "exclusive lock"},
		},
	} {
		t.Run(test.name, func(t *testing.T) { says(t, proof.Check(late(t, test.wrap)), test.says) })
	}
}

// says checks that an error says all that, or that there is none.
func says(t *testing.T, err error, all []string) {
	t.Helper()
	if err == nil {
		err = errNothing
	} else if len(all) == 0 {
		t.Errorf("the checker complains: %v", err)
	}
	for _, want := range all {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the checker says %q, want %q in it", err, want)
		}
	}
}

// TestSectionsTakenByForce: a section that may have been taken by force counts against nobody.
func TestSectionsTakenByForce(t *testing.T) {
	const second = int64(time.Second)
	claims := []driver.Claim{driver.Exclusive("k")}
	// held makes an acquisition of process 1, with its number for an owner.
	held := func(nr int, given, returning int64) []proof.Event {
		owner := string(rune('0' + nr))
		return []proof.Event{
			{Process: 1, Nr: nr, What: proof.Asked, At: given - 1, Claims: claims},
			{Process: 1, Nr: nr, What: proof.Given, At: given, Owner: owner, Token: uint64(nr), Until: 10 * second, TTL: time.Second},
			{Process: 1, Nr: nr, What: proof.Returning, At: returning},
			{Process: 1, Nr: nr, What: proof.Returned, At: returning + 1},
		}
	}
	at := func(what proof.What, at int64, owners ...string) proof.Event {
		return proof.Event{Process: 2, Nr: 1, What: what, At: at, Claims: claims, Owners: owners}
	}
	for name, test := range map[string]struct {
		force []proof.Event
		died  map[int]int64
		taken [3]bool // which of the three sections that follow
		told  [3]bool
	}{
		"nothing":                       {},
		"of nobody":                     {force: []proof.Event{at(proof.Forcing, 15), at(proof.Forced, 16)}},
		"answered":                      {force: []proof.Event{at(proof.Forcing, 15), at(proof.Forced, 16, "1")}, taken: [3]bool{true}, told: [3]bool{true}},
		"of who was about to be told":   {force: []proof.Event{at(proof.Forcing, 5), at(proof.Forced, 16, "1")}, taken: [3]bool{true}},
		"unanswered":                    {force: []proof.Event{at(proof.Forcing, 15), at(proof.Unsure, 16)}, taken: [3]bool{true, true, false}},
		"by a process that died of it":  {force: []proof.Event{at(proof.Forcing, 15)}, died: map[int]int64{2: 17}, taken: [3]bool{true, true, false}},
		"by one of which nothing comes": {force: []proof.Event{at(proof.Forcing, 15)}, taken: [3]bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			events := slices.Concat(held(1, 10, 20), held(2, 30, 40), held(3, 2*second, 3*second), test.force)
			for i, s := range proof.Sections(events, test.died) {
				taken, told := s.Taken < proof.Never, s.Told < proof.Never
				if taken != test.taken[i] || told != test.told[i] || s.End != min(s.Returning, s.Taken) {
					t.Errorf("%s: taken %v and told %v", s, taken, told)
				}
			}
		})
	}
}

// TestCheck has the histories that the stores at hand can't be made to leave.
func TestCheck(t *testing.T) {
	section := func(claim driver.Claim, token uint64, asked, given, end int64) proof.Section {
		return proof.Section{
			Claims: []driver.Claim{claim}, Token: token, Asked: asked, Given: given, End: end,
			Returning: end, Answered: end + 1, Outcome: proof.Returned,
			Shared: proof.Never, Taken: proof.Never, Told: proof.Never, Until: end, TTL: 10,
		}
	}
	x, r, p := driver.Exclusive("k"), driver.Shared("k"), driver.Permit("k", 2)
	unanswered := proof.Section{Claims: []driver.Claim{x}, Asked: 5, Given: proof.Never, Returning: proof.Never, Answered: proof.Never}
	killed := section(x, 1, 0, 1, 9)
	killed.Returning, killed.Answered, killed.Outcome = proof.Never, proof.Never, ""
	sharedFrom := func(at int64, s proof.Section) proof.Section {
		s.Shared = at
		return s
	}
	// taken by force between two moments.
	taken := func(began, ended int64, s proof.Section) proof.Section {
		s.Taken, s.Told, s.End, s.Outcome = began, ended, min(s.End, began), proof.Gone
		return s
	}
	unaware, givenBack, handedOn := taken(4, 5, section(r, 1, 0, 1, 30)), taken(4, 5, section(r, 1, 0, 1, 9)), taken(4, 5, section(x, 1, 0, 1, 9))
	givenBack.Outcome, handedOn.Outcome = proof.Returned, proof.Returned
	tooLate := taken(4, 5, section(x, 2, 6, 7, 9)) // handed on when there was nothing any more
	for _, test := range []struct {
		name     string
		sections []proof.Section
		says     []string
	}{
		{"a reader beside one who was a writer", []proof.Section{sharedFrom(5, section(x, 1, 0, 1, 9)), section(r, 2, 0, 6, 12)}, nil},
		{"a reader beside one who is still a writer", []proof.Section{sharedFrom(7, section(x, 1, 0, 1, 9)), section(r, 2, 0, 6, 12)}, []string{"exclusive by", "shared by"}},
		{"a writer beside one who was one", []proof.Section{sharedFrom(5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 6, 12)}, []string{"shared by", "exclusive by"}},
		{"a writer after one who was one", []proof.Section{sharedFrom(5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 9, 12)}, nil},
		{"a writer after one whose lease was taken", []proof.Section{taken(4, 5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 5, 12)}, nil},
		{"a writer before anybody began to take it", []proof.Section{taken(4, 5, section(x, 1, 0, 1, 9)), section(x, 2, 0, 3, 12)}, []string{"together", "exclusive lock"}},
		{"a lease that goes on after it was taken", []proof.Section{unaware}, []string{"was renewed"}},
		{"a lease that is given back after it was taken", []proof.Section{givenBack}, []string{"was given back"}},
		{"what was taken is handed on", []proof.Section{handedOn, section(x, 3, 2, 5, 12), tooLate}, nil},
		{"readers together", []proof.Section{section(r, 1, 0, 1, 9), section(r, 2, 0, 2, 9)}, nil},
		{"as many permits as there are", []proof.Section{section(p, 1, 0, 1, 9), section(p, 2, 0, 2, 9), section(p, 3, 0, 9, 12)}, nil},
		{"one permit too many", []proof.Section{section(p, 1, 0, 1, 9), section(p, 2, 0, 2, 9), section(p, 3, 0, 8, 12)}, []string{"by 3 together"}},
		{"a reader beside a writer", []proof.Section{section(x, 1, 0, 1, 9), section(r, 2, 0, 8, 12)}, []string{"exclusive by", "shared by"}},
		{"a permit beside a reader", []proof.Section{section(r, 1, 0, 1, 9), section(p, 2, 0, 8, 12)}, []string{"together"}},
		{"two writers", []proof.Section{section(x, 1, 0, 1, 9), section(x, 2, 0, 8, 12)}, []string{"together", "exclusive lock"}},
		{"a smaller token later", []proof.Section{section(r, 2, 0, 1, 9), section(r, 1, 2, 3, 9)}, []string{"comes after"}},
		{"a smaller token of one who asked before", []proof.Section{section(r, 2, 0, 3, 9), section(r, 1, 2, 4, 9)}, nil},
		{"a reader after a writer with a greater token", []proof.Section{section(x, 2, 0, 1, 5), section(r, 1, 0, 8, 12)}, []string{"comes after"}},
		{"a token twice", []proof.Section{section(x, 1, 0, 1, 2), section(x, 1, 0, 3, 4)}, []string{"one token", "exclusive lock"}},
		{"exclusive out of order", []proof.Section{section(x, 2, 0, 1, 5), section(x, 1, 0, 8, 12)}, []string{"exclusive lock"}},
		{"after one who was killed", []proof.Section{killed, unanswered, section(x, 2, 3, 9, 12)}, nil},
		{"too soon after one who was killed", []proof.Section{killed, section(x, 2, 3, 8, 12)}, []string{"together", "exclusive lock"}},
	} {
		t.Run(test.name, func(t *testing.T) { says(t, proof.Check(test.sections), test.says) })
	}
}
