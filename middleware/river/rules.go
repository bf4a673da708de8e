package lockriver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/jsonpath"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// DefaultMaxWait is how long a job waits for its key, on a worker, before it is snoozed, unless its
// rule has core.WithMaxWait or core.WithFailFast. It is short because a waiting job occupies a
// worker. The engine's own default does not count here.
const DefaultMaxWait = 2 * time.Second

// Rule says which jobs of one kind exclude each other, or count as the same. Make one with
// [Serialize] or [Once]. [New] checks it; the zero Rule is an error there.
type Rule struct {
	kind, template string
	once           bool
	opts           []core.CallOption
}

// Serialize runs the jobs of a kind one at a time per key. opts are the rule's policy. With
// core.WithShared or core.WithPermits, jobs share the key.
func Serialize(kind, template string, opts ...core.CallOption) Rule {
	return Rule{kind: kind, template: template, opts: opts}
}

// Once runs the jobs of a kind with the same key once. While the first runs, the others wait or are
// snoozed. After it has succeeded, they are completed without running, for core.WithRetention.
func Once(kind, template string, opts ...core.CallOption) Rule {
	return Rule{kind: kind, template: template, once: true, opts: opts}
}

// Locks is a set of rules over an engine. It is a rivertype.WorkerMiddleware, and safe for
// concurrent use. Make one with [New].
type Locks struct {
	rules map[string]*rule.Rule[*request]
}

var _ rivertype.WorkerMiddleware = (*Locks)(nil)

// New checks every rule and makes Locks of them. It does no I/O. The error joins everything that is
// wrong: a nil engine, a kind that is missing or has two rules, a wrong template, an option out of
// range (core.ErrInvalidOption), or what the engine's store does not support
// (errors.ErrUnsupported).
func New(eng *core.Engine, rules ...Rule) (*Locks, error) {
	l := &Locks{rules: make(map[string]*rule.Rule[*request], len(rules))}
	var errs []error
	for _, r := range rules {
		if r.kind == "" {
			errs = append(errs, errors.New("rule without a kind: make rules with Serialize or Once"))
			continue
		}
		if _, ok := l.rules[r.kind]; ok {
			errs = append(errs, fmt.Errorf("rule for %q: the kind already has one", r.kind))
		}
		compiled, err := rule.Compile(eng, rule.Spec[*request]{
			Name:     r.kind,
			Template: r.template,
			Once:     r.once,
			Defaults: [][]core.CallOption{{core.WithMaxWait(DefaultMaxWait)}},
			Options:  r.opts,
		}, bind)
		errs = append(errs, err)
		l.rules[r.kind] = compiled
	}
	if eng == nil && len(rules) == 0 {
		errs = append(errs, &core.OptionError{Option: "lockriver.New", Value: nil, Want: "an engine"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockriver: %w", err)
	}
	return l, nil
}

// request is what keys are made from. It belongs to one goroutine.
type request struct {
	ctx  context.Context
	job  *rivertype.JobRow
	args func() (jsonpath.Document, error) // decodes the arguments once, if they are needed
}

func newRequest(ctx context.Context, job *rivertype.JobRow) *request {
	r := &request{ctx: ctx, job: job}
	r.args = func() (jsonpath.Document, error) {
		doc, err := jsonpath.Parse(job.EncodedArgs)
		r.args = func() (jsonpath.Document, error) { return doc, err }
		return doc, err
	}
	return r
}

// bind binds a placeholder to a value.
func bind(p keytmpl.Placeholder) (rule.Source[*request], error) {
	one := func(value func(*rivertype.JobRow) string) (rule.Source[*request], error) {
		return rule.Source[*request]{One: func(r *request) (string, error) { return value(r.job), nil }}, nil
	}
	source, rest := p.Path[0].Name, len(p.Path) > 1
	switch {
	case source == "args" && p.Multiple():
		return rule.Source[*request]{Each: func(r *request) ([]string, error) {
			doc, err := r.args()
			if err != nil {
				return nil, err
			}
			return doc.Each(p)
		}}, nil
	case source == "args" && rest:
		return rule.Source[*request]{One: func(r *request) (string, error) {
			doc, err := r.args()
			if err != nil {
				return "", err
			}
			return doc.One(p)
		}}, nil
	case p.Multiple() || rest:
	case source == "args":
		return one(func(j *rivertype.JobRow) string { return string(j.EncodedArgs) })
	case source == "kind":
		return one(func(j *rivertype.JobRow) string { return j.Kind })
	case source == "queue":
		return one(func(j *rivertype.JobRow) string { return j.Queue })
	case source == "id":
		return one(func(j *rivertype.JobRow) string { return strconv.FormatInt(j.ID, 10) })
	}
	return rule.Source[*request]{}, errors.New("no such source: want args, args.<path>, kind, queue or id")
}
