package core_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
)

// recorder writes down what hooks are told.
type recorder struct {
	mu       sync.Mutex
	events   []string
	chain    string // the marks of its hooks
	attempts int    // of the last acquisition to end
}

// hookNames are all there are.
func hookNames() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[observe.Hooks]()) {
		names = append(names, f.Name)
	}
	return names
}

// setHook sets the hook of that name. What f returns counts if the hook returns something.
func setHook(h *observe.Hooks, name string, f func(args []any) any) {
	field := reflect.ValueOf(h).Elem().FieldByName(name)
	field.Set(reflect.MakeFunc(field.Type(), func(args []reflect.Value) []reflect.Value {
		given := make([]any, len(args))
		for i, arg := range args {
			given[i] = arg.Interface()
		}
		result := f(given)
		if field.Type().NumOut() == 0 {
			return nil
		}
		return []reflect.Value{reflect.ValueOf(result)}
	}))
}

// passed is what a context has got from the hooks of that name.
type passed string

func passedBy(ctx context.Context, hook string) string {
	marks, _ := ctx.Value(passed(hook)).(string)
	return marks
}

// hooks note every event in r: their name, the hook's, and what it was told, as "1HoldEnd lost". The context that
// the hook of a start returns has to come back with the end. The first of several hooks knows no trace.
func (r *recorder) hooks(t testing.TB, name string) (h observe.Hooks) {
	first, mark := r.chain == "", "|"+name
	r.chain += mark
	for _, hook := range hookNames() {
		setHook(&h, hook, func(args []any) any {
			r.note(name + hook + told(t, args))
			if hook == "AcquireEnd" {
				r.mu.Lock()
				r.attempts = args[1].(observe.Acquisition).Attempts
				r.mu.Unlock()
			}
			ctx, _ := args[0].(context.Context)
			if strings.HasPrefix(hook, "Hold") { // a hook may look at the lease that it is told of
				l := args[1].(observe.Lease)
				wantEqual(t, hook+": in force", l.Err() == nil && !l.Deadline().IsZero() && l.Context() != nil, hook == "HoldStart")
			}
			before, isEnd := strings.CutSuffix(hook, "End")
			if isEnd && passedBy(ctx, before+"Start") != r.chain || hook == "HoldStart" && passedBy(ctx, "AcquireStart") != "" {
				t.Errorf("%s%s in the wrong context", name, hook)
			}
			switch {
			case strings.HasSuffix(hook, "Start"):
				return context.WithValue(ctx, passed(hook), passedBy(ctx, hook)+mark)
			case first:
				return ""
			}
			return "trace" + name
		})
	}
	return h
}

// told is what a hook was told, without leases and times.
func told(t testing.TB, args []any) (said string) {
	of := func(store string) {
		wantEqual(t, "the store", store, "memory")
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case observe.Acquisition:
			of(v.Store)
			said += " " + v.Claims[0].Key
		case observe.Execution:
			of(v.Store)
			said += " " + v.Key
		case observe.Outcome:
			if v.Duplicate {
				said += " duplicate"
			}
		case observe.Lease:
			of(v.Store())
		case core.HeldError:
			said += " by " + v.Trace
		case observe.Declaration:
			said += fmt.Sprint(" ", v.Rule, ", ", v.Info, " on ", v.Store, ": ", v.Claims)
		case observe.Skip:
			said += fmt.Sprint(" ", v.Rule, " on ", v.Store, ": ", v.Reason)
		case observe.Debt:
			said += " " + string(v.State)
		case observe.Linger:
			said += " " + string(v.State)
		case observe.Removal:
			of(v.Store)
			said += fmt.Sprint(" ", v.Key, ", ", v.Reason, ", ", len(v.Holders))
		case string, int:
			said += fmt.Sprint(" ", v)
		case error:
			said += " " + outcome(v)
		case nil:
			if i == len(args)-1 {
				said += " ok"
			}
		}
	}
	return said
}

func (r *recorder) note(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *recorder) count(event string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e == event {
			n++
		}
	}
	return n
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, core.ErrHeld):
		return "held"
	case errors.Is(err, core.ErrLeaseLost):
		return "lost"
	case errors.Is(err, core.ErrUnavailable):
		return "outage"
	case errors.Is(err, observe.ErrPanicked):
		return "panicked"
	}
	return "error"
}

// wantDebts fails unless exactly these were seen, by state.
func (r *recorder) wantDebts(t *testing.T, want map[observe.DebtState]int) {
	t.Helper()
	for _, state := range []observe.DebtState{observe.DebtOwed, observe.DebtPaid, observe.DebtExpired, observe.DebtDropped, observe.DebtClosed} {
		wantEqual(t, string(state), r.count("Owed "+string(state)), want[state])
	}
}
