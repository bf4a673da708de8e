package lockgrpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// Late is an interceptor whose engine comes later, for frameworks that want the options of a server
// before there is a connection to a store. Until [Late.Bind], calls of methods with a rule are refused
// with UNAVAILABLE, which [Retry] repeats. Make one with [NewLate]. It is safe for concurrent use.
type Late struct {
	rules    []Rule
	methods  map[string]bool // those with a rule
	unlocked bool
	handler  ErrorHandler
	bound    atomic.Pointer[bound]
}

// bound is what Bind has made.
type bound struct {
	*Interceptor
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// NewLate makes a Late. Its error joins what is wrong with annotations and repeated methods. Everything
// else that [New] checks is checked by [Late.Bind].
func NewLate(rules ...Rule) (*Late, error) {
	resolved, err := resolve(rules)
	errs := []error{err}
	l := &Late{rules: rules, methods: make(map[string]bool)}
	for _, r := range resolved {
		if l.methods[r.method] {
			errs = append(errs, fmt.Errorf("rule for %q: there is already one", r.method))
		}
		l.methods[r.method] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockgrpc: %w", err)
	}
	return l, nil
}

// RunUnlocked lets calls run without their locks until [Late.Bind]. Call it before the server starts.
func (l *Late) RunUnlocked() { l.unlocked = true }

// WithErrorHandler has refusals answered by h: see [Interceptor.WithErrorHandler]. Call it before the
// server starts.
func (l *Late) WithErrorHandler(h ErrorHandler) *Late {
	l.handler = h
	return l
}

// Bind gives the rules their engine. The errors are those of [New]. A second call is an error.
func (l *Late) Bind(eng *core.Engine) error {
	i, err := New(eng, l.rules...)
	if err != nil {
		return err
	}
	if l.handler != nil {
		i = i.WithErrorHandler(l.handler)
	}
	if !l.bound.CompareAndSwap(nil, &bound{i, i.Unary(), i.Stream()}) {
		return errors.New("lockgrpc: the rules have an engine already")
	}
	return nil
}

// Interceptor returns what [Late.Bind] has made, for [Interceptor.Coverage] and [Interceptor.Check];
// nil before.
func (l *Late) Interceptor() *Interceptor {
	if b := l.bound.Load(); b != nil {
		return b.Interceptor
	}
	return nil
}

// Unary is [Interceptor.Unary].
func (l *Late) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if b := l.bound.Load(); b != nil {
			return b.unary(ctx, req, info, handler)
		}
		if err := l.refuse(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
}

// Stream is [Interceptor.Stream].
func (l *Late) Stream() grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if b := l.bound.Load(); b != nil {
			return b.stream(srv, stream, info, handler)
		}
		if err := l.refuse(stream.Context(), info.FullMethod); err != nil {
			return err
		}
		return handler(srv, stream)
	}
}

// Registrar is [Interceptor.Registrar].
func (l *Late) Registrar(r grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	return &registrar{to: r, unary: l.Unary(), stream: l.Stream()}
}

// refuse answers a call that comes before the engine.
func (l *Late) refuse(ctx context.Context, method string) error {
	if l.unlocked || !l.methods[method] {
		return nil
	}
	r := &boundRule{Rule: &rule.Rule[request]{Name: method}, handler: l.handler}
	return r.refuse(ctx, rule.Keys{}, &core.UnavailableError{Op: "acquire", Err: errUnbound}, nil)
}

var errUnbound = errors.New("the rules have no engine yet: call Late.Bind")
