package lockriver

import (
	"context"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// Rule says which jobs of one kind exclude each other, or count as the same. Make one with
// [Serialize], [Once] or their By forms. [New] checks it; the zero Rule is an error there.
type Rule struct {
	kind, template string
	key            func(*request) (string, error)
	keys           func(*request) ([]string, error)
	by             bool // a key function is required
	once           bool
	opts           []core.CallOption
	skip           func(context.Context, *rivertype.JobRow) bool
}

// SkipIf returns the rule with a function that returns true for jobs that run without it. Coverage
// then calls the rule partial. nil, the default: none.
func (r Rule) SkipIf(skip func(context.Context, *rivertype.JobRow) bool) Rule {
	r.skip = skip
	return r
}

// Serialize runs the jobs of a kind one at a time per key. The package comment lists the
// placeholders of template.
//
// Several rules of one kind are one set: all or none, in one order. Each has its mode. The other
// options of the set are those of the first rule, and the others must not have any. A rule of Once is
// the only one of its kind.
//
// opts are the rule's policy. Without an option about waiting, the wait is [DefaultMaxWait]. With
// core.WithShared or core.WithPermits, jobs share the key. With core.WithHierarchy, a "/" in the
// template separates levels, as in "group:{args.group}/member:{args.member}".
func Serialize(kind, template string, opts ...core.CallOption) Rule {
	return Rule{kind: kind, template: template, opts: opts}
}

// SerializeBy is [Serialize] with a function that makes the key from the arguments, decoded from JSON
// into a T as the worker gets them. A job is cancelled if its arguments do not decode, or if its key
// is empty or invalid (driver.ValidateKey). key is called from many goroutines. Pass values from
// outside through keytmpl.Escape.
func SerializeBy[T any](kind string, key func(T) string, opts ...core.CallOption) Rule {
	return Rule{kind: kind, by: true, key: rule.FromJSON(rule.Plain(key), args), opts: opts}
}

// SerializeKeys is [SerializeBy] for a function that gets the job's context and returns all keys of
// the job. They are taken together, as one set. The job is retried after an error of the function, unless
// it matches core.ErrInvalidKey or keytmpl.ErrMissingValue: then it is cancelled.
func SerializeKeys[T any](kind string, keys func(context.Context, T) ([]string, error), opts ...core.CallOption) Rule {
	return Rule{kind: kind, by: true, keys: rule.FromJSON(keys, args), opts: opts}
}

// Once runs the jobs of a kind with the same key once. While the first runs, the others wait or are
// snoozed. After it has succeeded, they are completed without running, for core.WithRetention. A job
// with the same key and other arguments is cancelled, unless opts has core.WithoutFingerprint.
func Once(kind, template string, opts ...core.CallOption) Rule {
	return Rule{kind: kind, template: template, once: true, opts: opts}
}

// OnceKey is [OnceBy] for a function that gets the job's context.
func OnceKey[T any](kind string, key func(context.Context, T) (string, error), opts ...core.CallOption) Rule {
	return Rule{kind: kind, by: true, key: rule.FromJSON(key, args), once: true, opts: opts}
}

// OnceBy is [Once] with a function that makes the key; see [SerializeBy].
func OnceBy[T any](kind string, key func(T) string, opts ...core.CallOption) Rule {
	return OnceKey(kind, rule.Plain(key), opts...)
}

// args returns what key functions get.
func args(r *request) (context.Context, []byte) { return r.ctx, r.job.EncodedArgs }
