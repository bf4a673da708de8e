package history_test

import (
	"testing"

	"github.com/keyturn/keyturn/proof/history"
)

// add makes the events of an increment that read a value at one moment, and was answered at another.
func add(process, nr int, old uint64, at, answered int64, what history.What) []history.Event {
	events := []history.Event{
		{Process: process, Nr: nr, What: history.Adding, At: at, Key: "r"},
		{Process: process, Nr: nr, What: history.Writing, At: at + 1, Value: old},
	}
	if what != "" {
		events = append(events, history.Event{Process: process, Nr: nr, What: what, At: answered})
	}
	return events
}

func TestRegisters(t *testing.T) {
	for _, test := range []struct {
		name  string
		incs  [][]history.Event
		final uint64
		lost  int
		says  []string
	}{
		{"in order", [][]history.Event{add(1, 1, 0, 1, 3, history.Added), add(2, 1, 1, 4, 6, history.Added)}, 2, 0, nil},
		{"both of 0", [][]history.Event{add(1, 1, 0, 1, 3, history.Added), add(2, 1, 0, 4, 6, history.Added)}, 1, 1, []string{"both made 1 of 0", "no order"}},
		{"the last one is gone", [][]history.Event{add(1, 1, 0, 1, 3, history.Added)}, 0, 0, []string{"an increment is lost"}},
		{"a refused one", [][]history.Event{add(1, 1, 0, 1, 3, history.Added), add(2, 1, 0, 4, 6, history.Stale)}, 1, 0, nil},
		{"one without an answer, done", [][]history.Event{add(1, 1, 0, 1, 3, history.Unsure), add(2, 1, 1, 4, 6, history.Added)}, 2, 0, nil},
		{"one without an answer, not done", [][]history.Event{add(1, 1, 0, 1, 3, ""), add(2, 1, 0, 4, 6, history.Added)}, 1, 0, nil},
		{"one without an answer, too late", [][]history.Event{add(1, 1, 1, 9, 10, history.Unsure), add(2, 1, 0, 1, 3, history.Added)}, 2, 0, nil},
		{"read before it was written", [][]history.Event{add(1, 1, 1, 1, 3, history.Added), add(2, 1, 0, 4, 6, history.Added)}, 2, 0, []string{"no order"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []history.Event
			for _, inc := range test.incs {
				events = append(events, inc...)
			}
			incs := history.Increments(events)
			says(t, history.Registers(incs, map[string]uint64{"r": test.final}), test.says)
			n := history.Lost(incs["r"])
			check(t, n == test.lost, "%d are lost", n)
		})
	}
}

// call makes the events of a call of Once; ran is 0 if its function did not run.
func call(process int, called, ran, ended int64, what history.What) []history.Event {
	events := []history.Event{{Process: process, Nr: int(called), What: history.Calling, At: called, Key: "id"}}
	if ran > 0 {
		events = append(events, history.Event{Process: process, Nr: int(called), What: history.Ran, At: ran})
	}
	if what != "" {
		events = append(events, history.Event{Process: process, Nr: int(called), What: what, At: ended})
	}
	return events
}

func TestOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		calls   [][]history.Event
		losses  []history.Loss
		effects int
		says    []string
	}{
		{"once", [][]history.Event{call(1, 1, 2, 3, history.Recorded), call(2, 4, 0, 5, history.Replayed)}, nil, 1, nil},
		{"again after the record", [][]history.Event{call(1, 1, 2, 3, history.Recorded), call(2, 4, 5, 6, history.Recorded)}, nil, 2, []string{"ran it, after"}},
		{"again after a replay", [][]history.Event{call(1, 1, 2, 0, ""), call(2, 4, 0, 6, history.Replayed), call(3, 7, 8, 9, history.Unsure)}, nil, 2, []string{"ran it, after"}},
		{"again after a crash", [][]history.Event{call(1, 1, 2, 0, ""), call(2, 4, 5, 6, history.Recorded)}, nil, 2, nil},
		{"again without a record", [][]history.Event{call(1, 1, 2, 3, history.Unsure), call(2, 4, 5, 6, history.Recorded)}, nil, 2, nil},
		{"again after a loss", [][]history.Event{call(1, 1, 2, 3, history.Recorded), call(2, 14, 15, 16, history.Recorded)}, []history.Loss{{From: 5, To: 10}}, 2, nil},
		{"again after an older loss", [][]history.Event{call(1, 11, 12, 13, history.Recorded), call(2, 14, 15, 16, history.Recorded)}, []history.Loss{{From: 5, To: 10}}, 2, []string{"ran it, after"}},
		{"never done", [][]history.Event{call(1, 1, 0, 3, history.Replayed)}, nil, 0, []string{"never done"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []history.Event
			for _, c := range test.calls {
				events = append(events, c...)
			}
			sum, err := history.Once(events, test.losses...)
			says(t, err, test.says)
			check(t, sum.Done == test.effects, "%d effects", sum.Done)
		})
	}
}

func TestCount(t *testing.T) {
	var events []history.Event
	one := func(nr int, whats ...history.What) {
		for i, what := range whats {
			events = append(events, history.Event{Process: 1, Nr: nr, What: what, At: int64(10*nr + i), Token: uint64(nr), Owner: "o"})
		}
	}
	one(1, history.Asked, history.Given, history.Extending, history.Holding, history.Returning, history.Returned)
	one(2, history.Asked, history.Given, history.Returning, history.Gone)
	one(3, history.Asked, history.Denied)
	one(4, history.Asked, history.Unsure)
	one(5, history.Calling, history.Asked, history.Given, history.Ran, history.Returning, history.Recorded)
	one(6, history.Adding, history.Writing)
	c := history.CountOf(events)
	want := history.Count{Operations: 9, Unknown: 2, Grants: 3, Tokens: 3, HandedOn: 2, Lost: 1, Extended: 1}
	check(t, c == want, "%+v\nwant %+v", c, want)
	says(t, c.Enough(4), []string{"3 grants, and there should be 4"})
	says(t, c.Enough(3), []string{"of 9 operations"})
	c.Operations = 10
	says(t, c.Enough(3), nil)
}

func TestLongest(t *testing.T) {
	given := func(at ...int64) []history.Section {
		var all []history.Section
		for _, a := range at {
			all = append(all, section("k", "", 0, a-1, a, a+1))
		}
		return all
	}
	longest, latest := history.Longest(given(10, 20, 70, 95), history.Span{To: 100}, []history.Span{{From: 25, To: 60}})
	check(t, longest == (history.Gap{Span: history.Span{From: 20, To: 70}, Late: 10}), "the longest gap is %+v", longest)
	check(t, latest == (history.Gap{Span: history.Span{From: 70, To: 95}, Late: 25}), "the latest is %+v", latest)
	if longest, _ := history.Longest(nil, history.Span{From: 5, To: 9}, nil); longest.To-longest.From != 4 {
		t.Errorf("without a grant: %+v", longest)
	}
}

func TestDeadlines(t *testing.T) {
	const ms = 1e6
	for _, test := range []struct {
		name string
		what history.What
		at   int64
		says []string
	}{
		{"before it", history.Holding, 50 * ms, nil},
		{"long after it", history.Holding, 70 * ms, []string{"10ms after its own deadline"}},
		{"released after it", history.Returning, 70 * ms, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			says(t, history.Deadlines([]history.Event{{Process: 1, Nr: 1, What: test.what, At: test.at, Until: 60 * ms}}), test.says)
		})
	}
}
