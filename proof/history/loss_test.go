package history_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
)

// section is an exclusive lease that was released in time.
func section(key, owner string, token uint64, asked, given, end int64) history.Section {
	return sectionOf(driver.Exclusive(key), owner, token, asked, given, end)
}

func sectionOf(claim driver.Claim, owner string, token uint64, asked, given, end int64) history.Section {
	return history.Section{
		Claims: []driver.Claim{claim}, Owner: owner, Token: token, Asked: asked, Given: given, End: end,
		Returning: end, Answered: end + 1, Outcome: history.Returned,
		Shared: history.Never, Taken: history.Never, Told: history.Never, Until: end, TTL: 10,
	}
}

// TestLosses: what a loss explains is not wrong, and nothing else is explained.
func TestLosses(t *testing.T) {
	loss := history.Loss{From: 20, To: 40}
	of := func(key string) history.Loss {
		return history.Loss{From: 20, To: 40, Hits: func(k string) bool { return k == key }}
	}
	over := history.Loss{From: 20, Over: 30, To: 40}
	old, next := section("k", "a", 1, 0, 1, 35), section("k", "b", 2, 22, 25, 60)
	// renewed was taken by force, and renewed after that.
	renewed := section("k", "a", 1, 0, 1, 90)
	renewed.Taken, renewed.Told, renewed.End, renewed.Outcome = 15, 18, 15, history.Gone
	// straddling was decided before the loss and written after it.
	straddling, between := section("k", "a", 1, 0, 30, 35), section("k", "b", 2, 2, 5, 10)
	for _, test := range []struct {
		name     string
		sections []history.Section
		losses   []history.Loss
		says     []string
	}{
		{"two holders, and no loss", []history.Section{old, next}, nil, []string{"together", "exclusive lock"}},
		{"two holders after a loss", []history.Section{old, next}, []history.Loss{loss}, nil},
		{"a loss of this key", []history.Section{old, next}, []history.Loss{of("k")}, nil},
		{"a loss of another key", []history.Section{old, next}, []history.Loss{of("l")}, []string{"together"}},
		{"a holder that never notices", []history.Section{section("k", "a", 1, 0, 1, 50), next}, []history.Loss{loss}, []string{"together"}},
		{"two holders before the loss", []history.Section{section("k", "a", 1, 0, 1, 15), section("k", "b", 2, 2, 10, 15)}, []history.Loss{loss}, []string{"together"}},
		{"two holders after all is over", []history.Section{section("k", "a", 1, 42, 43, 60), section("k", "b", 2, 44, 50, 60)}, []history.Loss{loss}, []string{"together"}},
		{"two holders when nothing is lost any more", []history.Section{section("k", "a", 1, 31, 32, 39), section("k", "b", 2, 33, 34, 60)}, []history.Loss{over}, []string{"together"}},
		{"an old holder, and one when nothing is lost any more", []history.Section{section("k", "a", 1, 0, 1, 39), section("k", "b", 2, 33, 34, 60)}, []history.Loss{over}, nil},
		{"an old lease that is handed on when nothing is lost any more", []history.Section{section("k", "a", 1, 0, 1, 29), section("k", "b", 9, 31, 32, 60), section("k", "a", 2, 33, 34, 39)}, []history.Loss{over}, nil},
		{"tokens that fall", []history.Section{section("k", "a", 9, 0, 1, 15), section("k", "b", 2, 22, 25, 30)}, []history.Loss{loss}, []string{"comes after"}},
		{"an old lease that is handed on", []history.Section{old, next, section("k", "a", 1, 26, 27, 30)}, []history.Loss{loss}, []string{"one token"}},
		{
			"an old lease that is handed on with its next token",
			[]history.Section{section("k", "a", 1, 0, 1, 26), section("k", "b", 9, 2, 25, 60), section("k", "a", 2, 26, 27, 30)},
			[]history.Loss{loss},
			nil,
		},
		{"a token from before the loss, and a lease from after it", []history.Section{straddling, between}, []history.Loss{loss}, []string{"exclusive lock"}},
		{"the same, where that is known", []history.Section{straddling, between}, []history.Loss{{From: 20, To: 40, Late: true}}, nil},
		{"a forced release, and a lease that goes on", []history.Section{renewed}, nil, []string{"was renewed"}},
		{"a forced release that is forgotten", []history.Section{renewed}, []history.Loss{loss}, nil},
		{"a forced release after all is over", []history.Section{renewed}, []history.Loss{{From: 5, To: 15}}, []string{"was renewed"}},
	} {
		t.Run(test.name, func(t *testing.T) { says(t, history.Check(test.sections, test.losses...), test.says) })
	}
}

func TestOverlaps(t *testing.T) {
	all := []history.Section{section("k", "a", 0, 0, 1, 9), section("k", "b", 0, 2, 8, 12), section("l", "c", 0, 2, 8, 12), section("k", "d", 0, 2, 12, 14)}
	n := history.Overlaps(all)
	check(t, n == 1, "%d overlaps", n)
}

// TestForcesThatAreForgotten: a store that forgets forced releases alone does not forget leases.
func TestForcesThatAreForgotten(t *testing.T) {
	loss := history.Loss{From: 20, To: 40, ForcesOnly: true}
	old := section("k", "a", 1, 0, 1, 30)
	next := section("k", "b", 2, 22, 25, 60)
	says(t, history.Check([]history.Section{old, next}, loss), []string{"together"})

	forced := old
	forced.Told, forced.Outcome, forced.Returning, forced.Shared = 24, history.Returned, 28, 1
	says(t, history.Check([]history.Section{forced}), []string{"given back after it had been taken away"})
	says(t, history.Check([]history.Section{forced}, loss), nil)
	forced.Answered = forced.Returning + int64(time.Second) // it was sent twice
	says(t, history.Check([]history.Section{forced}), nil)
}

// TestUnfounded: a holder is told of a loss before its deadline only if there was one.
func TestUnfounded(t *testing.T) {
	told := section("k", "a", 1, 0, 1, 90)
	told.Noticed = 50
	gone := section("k", "a", 1, 0, 1, 90)
	gone.Returning, gone.Answered, gone.Outcome = 40, 50, history.Gone
	late, forced := gone, told
	late.Answered = 95
	forced.Taken = 30
	for _, test := range []struct {
		name    string
		section history.Section
		losses  []history.Loss
		says    []string
	}{
		{"released in time", section("k", "a", 1, 0, 1, 90), nil, nil},
		{"told in between", told, nil, []string{"told of a loss 40ns before its deadline"}},
		{"the release says so", gone, nil, []string{"told of a loss"}},
		{"the release came too late", late, nil, nil},
		{"taken by force", forced, nil, nil},
		{"lost by the store", told, []history.Loss{{From: 20, To: 40}}, nil},
		{"lost by the store later", told, []history.Loss{{From: 60, To: 80}}, []string{"told of a loss"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.section.Noticed = cmp.Or(test.section.Noticed, history.Never)
			says(t, history.Unfounded([]history.Section{test.section}, test.losses...), test.says)
		})
	}
}
