package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// execution is a call of Once in the history.
type execution struct {
	process, nr   int
	key           string
	called, ended int64
	began         int64 // when it was called or, if it runs, had a lease in force
	ran           int64 // when its effect was done; Never: it was not
	outcome       What
}

func executions(events []Event) map[string][]*execution {
	type id struct{ process, nr int }
	byID, byKey := map[id]*execution{}, map[string][]*execution{}
	for _, e := range events {
		at := id{e.Process, e.Nr}
		x := byID[at]
		switch {
		case e.What == Calling:
			x = &execution{process: e.Process, nr: e.Nr, key: e.Key, called: e.At, began: e.At, ended: Never, ran: Never}
			byID[at] = x
			byKey[e.Key] = append(byKey[e.Key], x)
		case x == nil:
		case e.What == Given && e.At < e.Until:
			x.began = e.At // a record from before should have been its answer, however long it had waited
		case e.What == Ran:
			x.ran = e.At
		case e.What == Recorded || e.What == Replayed || e.What == Denied || e.What == Unsure:
			x.ended, x.outcome = e.At, e.What
		}
	}
	return byKey
}

// Effects is what calls of Once have done.
type Effects struct {
	IDs, Done int // how many ids had an effect, and how many effects there were
	Replayed  int // calls that were answered from the record
}

// Once checks the calls of Once: after somebody was told that an id is on record, nobody who calls
// later, or has waited and gets the lease later, runs it again, unless the store lost its data in
// between. And what is on record was done.
func Once(events []Event, losses ...Loss) (Effects, error) {
	var errs []error
	var sum Effects
	byKey := executions(events)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all := byKey[key]
		var first *execution // the one that was first told so
		done := 0
		for _, x := range all {
			if x.ran < Never {
				done++
			}
			if x.outcome == Replayed {
				sum.Replayed++
			}
			if (x.outcome == Recorded || x.outcome == Replayed) && (first == nil || x.ended < first.ended) {
				first = x
			}
		}
		sum.Done += done
		if done > 0 {
			sum.IDs++
		}
		if first == nil {
			continue
		}
		if done == 0 {
			errs = append(errs, &Violation{Key: key, From: first.called, To: first.ended, Text: "on record, and never done"})
		}
		for _, x := range all {
			if x.ran < Never && x.began > first.ended && !forgotten(key, first, x, losses) {
				errs = append(errs, &Violation{
					Key: key, From: first.called, To: x.ran,
					Text: fmt.Sprintf("call %d of process %d ran it, after call %d of process %d had it on record", x.nr, x.process, first.nr, first.process),
				})
			}
		}
	}
	return sum, errors.Join(errs...)
}

// forgotten reports whether the record may have been lost between two executions.
func forgotten(key string, first, again *execution, losses []Loss) bool {
	return slices.ContainsFunc(losses, func(l Loss) bool {
		return !l.ForcesOnly && (l.Hits == nil || l.Hits(key)) && first.called < l.over() && again.ran > l.From
	})
}
