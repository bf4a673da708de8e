package httprule

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/rule"
)

// The default limits of a body, in bytes: for one that is decoded in memory or that a record is
// compared by, and for any other.
const (
	DefaultBodyLimit  = 1 << 20
	DefaultSpoolLimit = 10 << 20
)

// Settings is what the author of a rule states.
type Settings struct {
	Name       string                     // of a rule without a template, to hooks; "": its kind
	Route      func(*http.Request) string // names the route, in the same way for all of its requests; "" if it is unknown
	Engine     *core.Engine
	Template   string
	Key        func(*http.Request) string // instead of the template
	Keys       func(*http.Request) ([]string, error)
	Precheck   func(*http.Request) error // refuses a request before it asks for the lock, and before a replay
	Skip       func(*http.Request) bool  // for a rule that is joined: returns true for requests that do without it
	Options    []core.CallOption
	BodyLimit  int64 // in bytes; 0: one of the defaults
	StreamBody bool  // the handler reads the body from the client
}

// Rule is a checked rule, ready for requests. It is safe for concurrent use.
type Rule struct {
	rule       *rule.Rule[*request]
	template   string   // "" with a key function
	params     []string // the route parameters that the template uses
	bodyLimit  int64
	streamBody bool
	route      func(*http.Request) string
	memory     *Memory                  // nil: one at a time, without records
	applies    func(*http.Request) bool // nil: to all requests
	methods    []string                 // the methods it applies to; nil: all
	looked     atomic.Bool              // its server's timeouts; see timeouts.go
}

// Serialize checks a rule for requests that run one at a time per key. The error joins
// everything that is wrong.
func Serialize(s Settings) (*Rule, error) { return s.compile("Serialize", nil) }

// Once checks a rule for requests that are processed once per key.
func Once(s Settings, m Memory) (*Rule, error) { return s.compile("Once", &m) }

func (s Settings) compile(kind string, m *Memory) (*Rule, error) {
	spec := rule.Spec[*request]{Name: cmp.Or(s.Name, "lockhttp."+kind), Template: s.Template, Once: m != nil, Options: s.Options}
	if s.Skip != nil {
		spec.Skip = func(r *request) bool { return s.Skip(r.Request) }
	}
	var errs []error
	switch {
	case s.Key != nil:
		spec.Key = func(r *request) (string, error) { return keyBy(r, plain(s.Key)) }
	case s.Keys != nil:
		spec.Keys = func(r *request) ([]string, error) { return keyBy(r, s.Keys) }
	case s.Template == "":
		errs = append(errs, errors.New("neither a template nor a key function: want one of them"))
		spec.Template = "-" // otherwise Compile would report the template again, in other words
	default:
		spec.Name = s.Template
	}
	return s.bind(spec, m, errs)
}

// bind checks what all rules have in common. errs are the errors so far.
func (s Settings) bind(spec rule.Spec[*request], m *Memory, errs []error) (*Rule, error) {
	r := &Rule{bodyLimit: s.BodyLimit, streamBody: s.StreamBody, route: s.Route}
	if s.BodyLimit < 0 {
		errs = append(errs, &core.OptionError{Option: "BodyLimit", Value: s.BodyLimit, Want: "0 or more"})
	}
	if s.Precheck != nil {
		spec.Precheck = func(r *request) error { return s.Precheck(r.Request) }
	}
	var err error
	if m != nil {
		r.memory, err = m.check()
		errs = append(errs, err)
	}
	binder := binder{usesBody: m != nil}
	r.rule, err = rule.Compile(s.Engine, spec, binder.bind)
	r.params = binder.params
	r.template = s.Template
	if s.StreamBody && binder.usesBody {
		errs = append(errs, &core.OptionError{Option: "StreamBody", Value: true, Want: "false, because the key comes from the body, which is read before the handler runs"})
	}
	if s.BodyLimit == 0 {
		r.bodyLimit = DefaultSpoolLimit
		if binder.usesBody {
			r.bodyLimit = DefaultBodyLimit
		}
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	info := r.rule.Info()
	if info.Shadow { // in memory it cannot get lost; see spooledBody.rewind
		r.bodyLimit = min(r.bodyLimit, inMemory-1)
	}
	if m != nil {
		r.memory.limit = info.ResultLimit
	}
	return r, nil
}

// LeavesBody reports whether the handler reads the body from the client.
func (r *Rule) LeavesBody() bool { return r.streamBody }

// Applies reports whether the rule applies to a request. Another request goes to the handler
// without Serve.
func (r *Rule) Applies(req *http.Request) bool { return r.applies == nil || r.applies(req) }

// Serve runs the exchange's handler under the rule, or answers instead of it.
func (r *Rule) Serve(x *Exchange) {
	r.lookAt(x.Request)
	defer x.end() // also after a panic
	err := r.rule.Check(x.read(r))
	switch {
	case err != nil:
		r.refuse(x, rule.Keys{}, err)
	case r.memory != nil:
		r.once(x)
	default:
		r.serialize(x)
	}
}

// Covers describes the rule, for reports, and reports whether it applies to requests with that
// method; "": all methods.
func (r *Rule) Covers(method string) (coverage.Rule, bool) {
	if r.methods == nil || method == "" {
		return r.rule.Info(), true
	}
	return r.rule.Info(), slices.Contains(r.methods, method)
}
