package lockfunc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// Locks puts rules around functions, and lists them. It is safe for concurrent use. Make one
// with [New].
type Locks struct {
	eng     *core.Engine
	list    *list
	handler ErrorHandler
}

// ErrorHandler answers refused calls in the service's own way: it returns the call's error.
// refused.Answer is the default, and so is nil. Errors of functions do not come here.
type ErrorHandler func(ctx context.Context, refused *reasons.Refusal) error

// WithErrorHandler returns Locks whose functions answer refusals by h. Names and the list are those
// of l.
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks {
	return &Locks{eng: l.eng, list: l.list, handler: h}
}

// New makes Locks on an engine's locks. A nil engine is an error of [Serialize] and [Once].
func New(eng *core.Engine) *Locks {
	return &Locks{eng: eng, list: &list{}}
}

// Coverage lists the functions that have rules, in the order in which they got them.
func (l *Locks) Coverage() []coverage.Target {
	l.list.mu.Lock()
	defer l.list.mu.Unlock()
	return slices.Clone(l.list.all)
}

// list is the list of functions with a rule.
type list struct {
	mu  sync.Mutex
	all []coverage.Target
}

// add refuses a name that is taken. Reports could not tell the two functions apart, and a
// program that decorates a function per call would fill the memory.
func (l *list) add(t coverage.Target) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.all, func(o coverage.Target) bool { return o.Name == t.Name }) {
		return fmt.Errorf("lockfunc: %w", &core.OptionError{Option: "func", Value: t.Name, Want: "a name of its own"})
	}
	l.all = append(l.all, t)
	return nil
}
