package lockgrpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// Interceptor applies rules to the calls of a server. It is safe for concurrent
// use. Make one with [New].
type Interceptor struct {
	rules         map[string]*boundRule // by full method name
	unary, stream atomic.Bool           // the interceptor was asked for
}

// boundRule is a rule with its method.
type boundRule struct {
	*rule.Rule[request]
	method *method
	// readsMessage: the key needs the request, not only its metadata.
	readsMessage bool
	messages     bool // each message of a stream takes its own turn
	handler      ErrorHandler
	storable     func(proto.Message) bool // nil: all are
}

// New checks the rules and makes an interceptor of them. It does no I/O.
//
// The error joins everything that is wrong:
//
//   - a nil engine or key function;
//   - a method that this program does not know;
//   - rules of one method that make no set (see [Serialize]);
//   - a template that does not parse, or names a field that the request does not have;
//   - a key function for another type;
//   - an option out of range (core.ErrInvalidOption);
//   - a rule that the engine's store does not support (errors.ErrUnsupported);
//   - Once for a stream;
//   - errors of [FromAnnotations] and [Configure].
func New(eng *core.Engine, rules ...Rule) (*Interceptor, error) {
	i := &Interceptor{rules: make(map[string]*boundRule, len(rules))}
	rules, err := resolve(rules)
	errs := []error{err}
	if eng == nil && len(rules) == 0 {
		errs = append(errs, &core.OptionError{Option: "lockgrpc.New", Value: nil, Want: "an engine"})
	}
	for _, r := range rules {
		bound, err := r.bind(eng)
		if before, ok := i.rules[r.method]; ok && r.source != "" {
			err = fmt.Errorf("rule for %q: there is already one", r.method)
		} else if ok && err == nil && before.Rule != nil {
			bound, err = before.join(bound)
		}
		errs = append(errs, err)
		i.rules[r.method] = bound
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockgrpc: %w", err)
	}
	return i, nil
}

// bind checks the rule. What can be checked without the method is checked even if there is no
// such method.
func (r Rule) bind(eng *core.Engine) (*boundRule, error) {
	m, err := findMethod(r.method)
	b := &binder{method: m, messages: r.messages}
	spec := rule.Spec[request]{Name: r.method, Template: r.template, Key: r.key, Keys: r.keys, Once: r.once, Defaults: r.defaults, Options: r.options}
	if r.skip != nil {
		spec.Skip = func(from request) bool { return r.skip(from.ctx, from.given()) }
	}
	if r.precheck != nil {
		spec.Precheck = func(from request) error { return r.precheck(from.ctx, from.given()) }
	}
	compiled, wrong := rule.Compile(eng, spec, b.bind)
	if err := errors.Join(r.wrong, err, r.fits(m)); err != nil {
		wrong = errors.Join(fmt.Errorf("rule for %q: %w", r.method, err), wrong)
	}
	if wrong != nil && r.source != "" {
		wrong = fmt.Errorf("%s: %w", r.source, wrong)
	}
	// Once needs the message to tell a repeat from another request.
	reads := b.usesField || r.takes != nil || r.once || r.skip != nil && m != nil && (r.messages || !m.streams())
	return &boundRule{
		Rule: compiled, method: m, readsMessage: reads, messages: r.messages, storable: r.storable,
	}, wrong
}

// join makes one rule of two for the same method.
func (r *boundRule) join(other *boundRule) (*boundRule, error) {
	if r.messages != other.messages {
		return other, fmt.Errorf("rule for %q: want either rules for the whole stream or rules for its messages", r.Name)
	}
	joint := *r
	joint.readsMessage = r.readsMessage || other.readsMessage
	var err error
	joint.Rule, err = rule.Join(r.Rule, other.Rule)
	return &joint, err
}

// fits checks what is not in the template. A nil method has been reported before.
func (r Rule) fits(m *method) error {
	var errs []error
	if r.nilKey {
		errs = append(errs, errors.New("the key function is nil"))
	}
	if m == nil {
		return errors.Join(errs...)
	}
	if r.once && m.streams() {
		errs = append(errs, errors.New("Once is for unary methods: a stream has no single response to replay"))
	}
	if r.storable != nil && !r.once {
		errs = append(errs, errors.New("Storable is for rules of Once"))
	}
	if r.messages && !m.IsStreamingClient() {
		errs = append(errs, errors.New("the client sends only one message: use a rule for the whole call"))
	}
	if r.takes != nil && m.bidirectional() && !r.messages {
		errs = append(errs, errors.New("a bidirectional stream has no request for a key function: use {metadata.name}"))
	} else if r.takes != nil && r.takes != m.goType() {
		errs = append(errs, fmt.Errorf("the key function takes %v, the method %v", r.takes, m.goType()))
	}
	return errors.Join(errs...)
}

// Unary returns the interceptor for unary methods, for grpc.ChainUnaryInterceptor. It does not
// affect methods without a rule.
func (i *Interceptor) Unary() grpc.UnaryServerInterceptor {
	i.unary.Store(true)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		r, ok := i.rules[info.FullMethod]
		if !ok {
			return handler(ctx, req)
		}
		if err := r.check(ctx, req); err != nil {
			return nil, r.refuse(ctx, rule.Keys{}, err, nil)
		}
		from, keys, err := r.keysOf(ctx, req)
		if err != nil {
			return nil, r.refuse(ctx, keys, err, nil)
		}
		if keys.Skipped() {
			return handler(ctx, req)
		}
		next := func(ctx context.Context) (any, error) { return handler(ctx, req) }
		if r.Once {
			return r.once(from, keys, req, next)
		}
		return r.serialize(ctx, keys, next)
	}
}

// check asks the prechecks, which see a message whether the key needs it or not.
func (r *boundRule) check(ctx context.Context, message any) error {
	from := request{ctx: ctx}
	if m, ok := message.(proto.Message); ok {
		from.message = m.ProtoReflect()
	}
	return r.Check(from)
}

// keysOf returns the keys of a message, and what they are made from. A rule that does not read the message accepts any.
func (r *boundRule) keysOf(ctx context.Context, message any) (from request, keys rule.Keys, err error) {
	from = request{ctx: ctx}
	if r.readsMessage {
		if from.message, err = r.method.message(message); err != nil {
			keys, err = r.Spare(keys, err)
			return from, keys, err
		}
	}
	keys, err = r.Keys(ctx, from)
	return from, keys, err
}

func (r *boundRule) serialize(ctx context.Context, keys rule.Keys, next func(context.Context) (any, error)) (any, error) {
	var response any
	refused, own := r.Serialize(ctx, keys, func(ctx context.Context) (err error) {
		response, err = next(ctx)
		return err
	})
	if refused != nil {
		return nil, r.refuse(ctx, keys, refused, own)
	}
	return response, own
}
