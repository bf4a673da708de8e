package lockhttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/internal/refusal"
)

// Locks is a set of rules over an engine. It is safe for concurrent use. Make one with [New].
type Locks struct {
	*rules
	refuse ErrorHandler
}

// rules are what all Locks over the same rules share.
type rules struct {
	all    []*guard            // one per rule, in the order of New, for reports
	guards []*guard            // in the same order, one per set, for requests
	paths  map[string][]*guard // those that cover a path, in the same order
	rest   []*guard            // those that cover every other path
}

// guard is a rule with the requests that it covers.
type guard struct {
	rule                *httprule.Rule
	route, method, path string                   // method "": all; path "*": all
	skip                func(*http.Request) bool // nil: none
	inSet               bool                     // it serves several rules
}

// New checks every rule and makes Locks of them. It does no I/O. The error joins everything that is
// wrong:
//
//   - the engine, a route or a key function is missing;
//   - a template does not parse or names an unknown source;
//   - rules of one route make no set (see [Serialize]);
//   - an option is out of range (core.ErrInvalidOption);
//   - the engine's store does not support a rule (errors.ErrUnsupported).
//
// A route that does not exist is no error, because routes are not known yet: see [Locks.Check].
func New(eng *core.Engine, all ...Rule) (*Locks, error) {
	l := &Locks{rules: &rules{paths: make(map[string][]*guard)}}
	var errs []error
	if eng == nil && len(all) == 0 {
		errs = append(errs, &core.OptionError{Option: "lockhttp.New", Value: nil, Want: "an engine"})
	}
	sets := make(map[string]int) // by route: how many rules of Serialize it has
	for _, r := range all {
		if r.kind == serialize {
			sets[r.route]++
		}
	}
	for _, r := range all {
		inSet := r.kind == serialize && sets[r.route] > 1
		g, err := r.compile(eng, inSet)
		l.all = append(l.all, g)
		if err == nil {
			err = l.add(g, inSet)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockhttp: %w", err)
	}
	for _, g := range l.guards {
		if g.path != everything {
			l.paths[g.path] = nil
		}
	}
	for path := range l.paths {
		l.paths[path] = l.covering(func(p string) bool { return p == path })
	}
	l.rest = l.covering(func(string) bool { return false })
	return l.WithErrorHandler(nil), nil
}

// add adds a guard, or joins it with that of its set.
func (l *rules) add(g *guard, inSet bool) error {
	first := slices.IndexFunc(l.guards, func(o *guard) bool { return o.inSet && o.route == g.route })
	switch {
	case !inSet:
		l.guards = append(l.guards, g)
	case first < 0:
		served := *g
		served.inSet, served.skip = true, nil // each rule of a set skips for itself
		l.guards = append(l.guards, &served)
	default:
		joint, err := l.guards[first].rule.Join(g.rule)
		if err != nil {
			return fmt.Errorf("route %q: %w", g.route, err)
		}
		l.guards[first].rule = joint
	}
	return nil
}

// everything is the route of a rule that covers all requests.
const everything = "*"

// split splits a route into its method, "" for all of them, and its path.
func split(route string) (method, path string) {
	method, path, found := strings.Cut(route, " ")
	if !found {
		return "", route
	}
	return method, strings.TrimLeft(path, " \t")
}

// compile checks r and binds it to the engine. A rule of a set skips requests within it.
func (r Rule) compile(eng *core.Engine, inSet bool) (*guard, error) {
	g := &guard{route: r.route, skip: r.settings.Skip}
	g.method, g.path = split(r.route)
	var errs []error
	if g.path == "" {
		errs = append(errs, errors.New(`want a route, such as "PUT /users/{id}", or "*"; make rules with Serialize, Once and so on`))
	}
	if r.kind == serialize && (r.memory.Storable != nil || r.memory.Headers != nil) {
		errs = append(errs, errors.New("Storable and StoredHeaders are for rules of Once"))
	}
	if r.kind != idempotency && (r.sender.Header != "" || r.sender.Optional) {
		errs = append(errs, errors.New("Header and Optional are for rules of Idempotency"))
	}
	s := r.settings
	if !inSet {
		s.Skip = nil // see nest
	}
	if s.Engine, s.Route = eng, g.routeOf; g.path != everything {
		s.Name = r.route
	}
	var err error
	switch r.kind {
	case once:
		g.rule, err = httprule.Once(s, r.memory)
	case idempotency:
		g.rule, err = httprule.Idempotency(s, r.memory, r.sender)
	default:
		g.rule, err = httprule.Serialize(s)
	}
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("route %q: %w", r.route, err)
	}
	return g, nil
}

// WithErrorHandler returns Locks with the same rules that answer refusals by h. Use them in place of l.
// nil: [DefaultErrorHandler].
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks {
	if h == nil {
		h = DefaultErrorHandler
	}
	return &Locks{rules: l.rules, refuse: byHTTP(h)}
}

// Middleware puts the rules around a handler behind a router, which has set the request's Pattern: they
// choose by it. A request without a rule passes. One without a Pattern is answered with 500, because
// nobody knows its rules; unless all rules are for "*".
func (l *Locks) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(l.paths) == 0 {
			l.serve(l.rest, r.Method, next, w, r)
			return
		}
		method, path := split(r.Pattern)
		if path == "" {
			l.refuse(w, r, refusal.Told("lockhttp", "", &httprule.RouteError{}, nil))
			return
		}
		l.serve(l.of(r, path), cmp.Or(method, r.Method), next, w, r) // GET is the pattern of HEAD, too
	})
}

// serve runs next under guards. If one of them leaves the body to the handler, so do all that need not read it:
// an inner one would read it while the outer one's key is held.
func (l *Locks) serve(guards []*guard, method string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	leave := slices.ContainsFunc(guards, func(g *guard) bool { return g.covers(method) && g.rule.LeavesBody() })
	l.nest(guards, method, leave, next, w, r)
}

// nest runs next under the first of guards that applies, and within it under the others.
func (l *Locks) nest(guards []*guard, method string, leave bool, next http.Handler, w http.ResponseWriter, r *http.Request) {
	for i, g := range guards {
		if !g.covers(method) || g.skip != nil && g.skip(r) || !g.rule.Applies(r) {
			continue
		}
		x := &httprule.Exchange{Writer: w, Request: r, Next: next, Refuse: l.refuse, LeaveBody: leave}
		if rest := guards[i+1:]; len(rest) > 0 {
			x.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.nest(rest, method, leave, next, w, r) })
		}
		g.rule.Serve(x)
		return
	}
	next.ServeHTTP(w, r)
}

// covers reports whether g covers requests with a method.
func (g *guard) covers(method string) bool { return g.method == "" || g.method == method }
