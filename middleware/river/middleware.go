package lockriver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// DefaultMaxWait is how long a job waits for its key, on a worker, before it is snoozed, unless its
// rule has core.WithMaxWait or core.WithFailFast. It is short because a waiting job occupies a
// worker. The engine's own default does not count here.
const DefaultMaxWait = 2 * time.Second

// Locks is a set of rules over an engine. It is a rivertype.WorkerMiddleware, and safe for
// concurrent use. Make one with [New].
type Locks struct {
	rules   map[string]*rule.Rule[*request] // by kind
	handler ErrorHandler
}

// ErrorHandler answers refused jobs in the service's own way. It returns the error for River:
// refused.Answer is the default, such as a *rivertype.JobSnoozeError; nil completes the job. Errors of
// workers do not come here.
type ErrorHandler func(ctx context.Context, job *rivertype.JobRow, refused *reasons.Refusal) error

// WithErrorHandler returns Locks with the same rules that answer refusals by h. Use them in place of l.
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks { return &Locks{rules: l.rules, handler: h} }

// refuse answers a refusal, by default as the table says. own is the worker's error.
func (l *Locks) refuse(ctx context.Context, r *rule.Rule[*request], keys rule.Keys, job *rivertype.JobRow, refused, own error) error {
	answer := answers[refusal.Of(refused)](ctx, fmt.Errorf("lockriver: rule for %q: %w", r.Name, refused), own)
	if l.handler == nil {
		return answer
	}
	return l.handler(ctx, job, refusal.Told(r.Name, keys.First, refused, answer))
}

var _ rivertype.WorkerMiddleware = (*Locks)(nil)

// New checks every rule and makes Locks of them. It does no I/O. The error joins everything that
// is wrong:
//
//   - the engine, a kind or a key function is missing;
//   - rules of one kind make no set (see [Serialize]);
//   - a template does not parse or names an unknown source;
//   - an option is out of range (core.ErrInvalidOption);
//   - the engine's store does not support a rule (errors.ErrUnsupported): [*] takes several
//     claims at once, and Once takes records.
//
// A kind that does not exist is no error, because kinds are not known at start.
func New(eng *core.Engine, rules ...Rule) (*Locks, error) {
	l := &Locks{rules: make(map[string]*rule.Rule[*request], len(rules))}
	var errs []error
	if eng == nil && len(rules) == 0 {
		errs = append(errs, &core.OptionError{Option: "lockriver.New", Value: nil, Want: "an engine"})
	}
	for _, r := range rules {
		compiled, err := r.compile(eng)
		if before := l.rules[r.kind]; before != nil && err == nil {
			compiled, err = rule.Join(before, compiled)
		}
		errs = append(errs, err)
		l.rules[r.kind] = compiled
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockriver: %w", err)
	}
	return l, nil
}

// compile checks r and binds it to the engine.
func (r Rule) compile(eng *core.Engine) (*rule.Rule[*request], error) {
	if r.kind == "" {
		return nil, fmt.Errorf("rule for %q: want a kind; make rules with Serialize, Once and so on", r.kind)
	}
	if r.by && r.key == nil && r.keys == nil {
		return nil, fmt.Errorf("rule for %q: the key function is nil", r.kind)
	}
	var skip func(*request) bool
	if r.skip != nil {
		skip = func(req *request) bool { return r.skip(req.ctx, req.job) }
	}
	return rule.Compile(eng, rule.Spec[*request]{
		Skip:     skip,
		Name:     r.kind,
		Template: r.template,
		Key:      r.key,
		Keys:     r.keys,
		Once:     r.once,
		Defaults: []core.CallOption{core.WithMaxWait(DefaultMaxWait)},
		Options:  r.opts,
	}, bind)
}

// IsMiddleware implements rivertype.Middleware.
func (l *Locks) IsMiddleware() bool { return true }

// Work implements rivertype.WorkerMiddleware. Jobs of kinds without a rule pass through. For the
// others, the worker's context is the lease's, so core.LeaseFrom finds the lease.
func (l *Locks) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	r, ok := l.rules[job.Kind]
	if !ok {
		return doInner(ctx)
	}
	keys, err := r.Keys(ctx, newRequest(ctx, job))
	if err != nil {
		return l.refuse(ctx, r, keys, job, err, nil)
	}
	var refused, own error
	if r.Once {
		refused, own = r.DoOnce(ctx, keys, doInner, core.WithFingerprint(fingerprint(job)))
	} else {
		refused, own = r.Serialize(ctx, keys, doInner)
	}
	if refused == nil {
		return own
	}
	return l.refuse(ctx, r, keys, job, refused, own)
}

// fingerprint identifies what a job asks for. Its id does not count: it differs from one insertion
// of a message to the next.
func fingerprint(job *rivertype.JobRow) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(job.Kind), job.Kind, job.EncodedArgs))
	return sum[:]
}
