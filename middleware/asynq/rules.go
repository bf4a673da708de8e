package lockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// Rule says which tasks take which key, and under which policy. Make one with [Serialize] or
// [Once], or with their forms that end in For or By. [New] checks it.
type Rule struct {
	pattern  string
	template string
	key      func(*request) (string, error)
	keys     func(*request) ([]string, error)
	by       bool // a key function is required
	once     bool
	conflict Conflict
	payload  reflect.Type // the type of payloads; nil: unknown
	opts     []core.CallOption
	skip     func(context.Context, *asynq.Task) bool

	versioned   bool // KeepLatestBy or KeepLatestFunc was called
	version     string
	versionFunc func(*asynq.Task) (uint64, error)

	untilStarted bool
	every        *time.Duration // between two tries; nil: it grows
}

type checkedRule = rule.Rule[*request]

// checked is a rule that is ready for tasks.
type checked struct {
	*checkedRule
	conflict     Conflict
	versionOf    func(*request) (uint64, error) // nil: tasks have no version
	untilStarted bool
	every        time.Duration // 0: it grows
	skipped      atomic.Uint64
	warned       atomic.Bool // a task without an id of ours was logged
}

// Serialize runs tasks one at a time per key. pattern is a pattern as in [asynq.ServeMux]: a
// task type, or the beginning of several. The package comment lists the placeholders of
// template.
//
// Several rules of one pattern, such as one of the group and one of the user, are one set: all or none,
// in one order. Each has its mode. The other options of the set, and what becomes of a task, are those of
// the first rule, and the others must not have any. A rule of Once, or one that keeps the latest or is
// unique until started, is the only one of its pattern.
//
// opts are the rule's policy. Without an option about waiting, the wait is [DefaultMaxWait].
// [Rule.OnConflict] says what happens to a task that did not get its key by then. With
// core.WithShared or core.WithPermits, tasks share the key. With core.WithHierarchy, a "/" in
// the template separates levels, as in "group:{payload.group}/member:{payload.member}".
func Serialize(pattern, template string, opts ...core.CallOption) Rule {
	return Rule{pattern: pattern, template: template, opts: opts}
}

// SkipIf returns the rule with a function that returns true for tasks that run without it. Coverage then
// calls the rule partial. It is called from many goroutines. nil, the default: none.
func (r Rule) SkipIf(skip func(context.Context, *asynq.Task) bool) Rule {
	r.skip = skip
	return r
}

// SerializeFor is [Serialize] for payloads that are a T in JSON. [New] checks the template
// against T's fields and tags, as encoding/json reads them. A missing field, an object where a
// single value is needed, and a list without [*] are errors of New. Otherwise they would
// archive every task later. It checks nothing below a map, an interface, a json.RawMessage or a
// type with JSON methods of its own. A field may still be missing in one task, because of
// omitempty or a nil pointer; that task is then archived.
func SerializeFor[T any](pattern, template string, opts ...core.CallOption) Rule {
	r := Serialize(pattern, template, opts...)
	r.payload = reflect.TypeFor[T]()
	return r
}

// SerializeBy is [Serialize] with a function that makes the key from the payload. The payload
// is decoded from JSON into a T, as the handler does it. A task is archived if its payload does
// not decode, or if its key is empty or invalid ([driver.ValidateKey]). The function is called
// from many goroutines. Pass values from outside through [keytmpl.Escape].
func SerializeBy[T any](pattern string, key func(T) string, opts ...core.CallOption) Rule {
	return Rule{pattern: pattern, by: true, key: rule.FromJSON(rule.Plain(key), payload), opts: opts}
}

// SerializeKeys is [SerializeBy] for a function that gets the task's context and returns all keys of
// the task. They are taken together, as one set. An error of the function fails the attempt, unless it
// matches core.ErrInvalidKey or keytmpl.ErrMissingValue: then the task is archived.
func SerializeKeys[T any](pattern string, keys func(context.Context, T) ([]string, error), opts ...core.CallOption) Rule {
	return Rule{pattern: pattern, by: true, keys: rule.FromJSON(keys, payload), opts: opts}
}

// Once processes a task once per key. A second task with the same key succeeds without a call
// of its handler, for core.WithRetention. A task that arrives while the first is being
// processed waits for it, or is rescheduled. A task with the same key and another type or
// payload is archived, unless opts has core.WithoutFingerprint. All rules of an engine, also those of
// other middlewares, share one set of keys: begin those of each with a word of its own.
func Once(pattern, template string, opts ...core.CallOption) Rule {
	return Rule{pattern: pattern, template: template, once: true, opts: opts}
}

// OnceFor is [Once] with a template that is checked as in [SerializeFor].
func OnceFor[T any](pattern, template string, opts ...core.CallOption) Rule {
	r := Once(pattern, template, opts...)
	r.payload = reflect.TypeFor[T]()
	return r
}

// OnceKey is [OnceBy] for a function that gets the task's context. Its errors are as in [SerializeKeys].
func OnceKey[T any](pattern string, key func(context.Context, T) (string, error), opts ...core.CallOption) Rule {
	return Rule{pattern: pattern, by: true, key: rule.FromJSON(key, payload), once: true, opts: opts}
}

// OnceBy is [Once] with a key computed as in [SerializeBy].
func OnceBy[T any](pattern string, key func(T) string, opts ...core.CallOption) Rule {
	return OnceKey(pattern, rule.Plain(key), opts...)
}

// payload returns what key functions get.
func payload(r *request) (context.Context, []byte) { return r.ctx, r.task.Payload() }

// compile checks r and binds it to the engine.
func (r Rule) compile(eng *core.Engine) (*checked, error) {
	var errs []error
	wrong := func(err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("rule for %q: %w", r.pattern, err))
		}
	}
	if strings.TrimSpace(r.pattern) == "" { // ServeMux would panic
		wrong(errors.New("want a task type; make rules with Serialize, Once and so on"))
	}
	if r.by && r.key == nil && r.keys == nil {
		wrong(errors.New("the key function is nil"))
		r.template = "-" // otherwise a second error would report a missing template
	}
	if r.conflict < Reschedule || r.conflict > Fail {
		wrong(&core.OptionError{Option: "OnConflict", Value: r.conflict, Want: "Reschedule, Wait, Skip or Fail"})
	}
	wrong(r.checkDelay())
	version, err := r.compileVersion()
	wrong(err)
	var skip func(*request) bool
	if r.skip != nil {
		skip = func(req *request) bool { return r.skip(req.ctx, req.task) }
	}
	compiled, err := rule.Compile(eng, rule.Spec[*request]{
		Skip:            skip,
		Name:            r.pattern,
		Template:        r.template,
		Key:             r.key,
		Keys:            r.keys,
		Once:            r.once,
		Skips:           r.skips(),
		AdvancesVersion: r.untilStarted,
		Defaults:        []core.CallOption{r.conflict.defaultWait()},
		Options:         r.opts,
	}, r.bind)
	if err == nil && r.remembers() {
		wrong(r.canRemember(compiled))
	}
	c := &checked{checkedRule: compiled, conflict: r.conflict, versionOf: version, untilStarted: r.untilStarted}
	if r.every != nil {
		c.every = *r.every
	}
	return c, errors.Join(append(errs, err)...)
}

// join makes c the set of c and other, which have the same pattern.
func (c *checked) join(other *checked) error {
	alone := func(o *checked) bool { return o.versionOf != nil || o.untilStarted }
	if alone(c) || alone(other) || other.conflict != Reschedule || other.every != 0 {
		return fmt.Errorf("rule for %q: several rules are one set: want OnConflict and RescheduleEvery of the first of them only, and no KeepLatestBy or UniqueUntilStarted", c.Name)
	}
	joint, err := rule.Join(c.checkedRule, other.checkedRule)
	if err == nil {
		c.checkedRule = joint
	}
	return err
}

// skips says why tasks may be dropped.
func (r Rule) skips() coverage.SkipReason {
	switch {
	case r.versioned:
		return coverage.SkipSuperseded
	case r.conflict == Skip:
		return coverage.SkipHeld
	}
	return ""
}

// remembers reports whether the store has to keep a number per key for the rule.
func (r Rule) remembers() bool { return r.versioned || r.untilStarted }

// canRemember refuses options with which such a rule could not keep its promise.
func (r Rule) canRemember(c *checkedRule) error {
	info := c.Info()
	want := ""
	switch {
	case r.once:
		want = "a rule of Serialize's"
	case strings.Contains(r.template, "[*]"), r.keys != nil:
		want = "a rule with one key"
	case r.skip != nil: // such a task would have no key
		want = "a rule without SkipIf"
	case info.Mode != driver.ModeExclusive:
		want = "a rule that takes its key exclusively"
	case info.RunUnlocked:
		want = "a rule without core.WithRunUnlocked"
	case info.Shadow: // tasks are dropped and refused by it
		want = "a rule without core.WithShadow"
	case r.conflict == Skip:
		want = "a rule without OnConflict(Skip)"
	case r.versioned && r.untilStarted: // the newest task would be refused because of an older one
		want = "a rule without KeepLatestBy"
	}
	option := "KeepLatestBy"
	if r.untilStarted {
		option = "UniqueUntilStarted"
	}
	if want == "" {
		return nil
	}
	return &core.OptionError{Option: option, Value: r.pattern, Want: want}
}

// remembered returns the key under which the store keeps a number for a rule and a key. It
// differs from those of other rules: no template renders a "%" that two digits do not follow.
func remembered(what, pattern, key string) string {
	name := "%" + what + ":" + keytmpl.Escape(pattern) + ":" + key
	if len(name) <= driver.MaxKeyBytes {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "%" + what + ":" + hex.EncodeToString(sum[:])
}
