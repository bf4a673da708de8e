package core_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// Of several options about one matter the last one counts: in a call, in a policy, at its place among a
// call's options, and in New. A call's options come after New's.
func TestTheLastOptionCounts(t *testing.T) {
	adaptive := core.WithAdaptiveTTL(40*time.Second, 50*time.Second)
	const adaptively = 50 * time.Second
	ttl, wait, failFast := core.WithTTL(time.Hour), core.WithMaxWait(time.Second), core.WithFailFast()
	for name, tc := range map[string]struct {
		engine []core.EngineOption
		call   []core.CallOption
		ttl    time.Duration
		waits  time.Duration
	}{
		"defaults":                 {nil, nil, defaultTTL, 30 * time.Second},
		"New":                      {[]core.EngineOption{ttl, failFast}, nil, time.Hour, 0},
		"New, the same twice":      {[]core.EngineOption{core.WithTTL(time.Minute), ttl, wait, core.WithMaxWait(2 * time.Second)}, nil, time.Hour, 2 * time.Second},
		"New, one by another":      {[]core.EngineOption{ttl, failFast, adaptive, wait}, nil, adaptively, time.Second},
		"New, the other way":       {[]core.EngineOption{adaptive, wait, ttl, failFast}, nil, time.Hour, 0},
		"call":                     {[]core.EngineOption{ttl, failFast}, []core.CallOption{adaptive, wait}, adaptively, time.Second},
		"call, the same twice":     {nil, []core.CallOption{core.WithTTL(time.Minute), ttl, wait, core.WithMaxWait(2 * time.Second)}, time.Hour, 2 * time.Second},
		"call, one by another":     {nil, []core.CallOption{ttl, failFast, adaptive, wait}, adaptively, time.Second},
		"call, the other way":      {nil, []core.CallOption{adaptive, wait, ttl, failFast}, time.Hour, 0},
		"policy":                   {[]core.EngineOption{ttl, failFast}, []core.CallOption{policy(t, adaptive, wait)}, adaptively, time.Second},
		"policy, then an option":   {nil, []core.CallOption{policy(t, adaptive, wait), ttl, failFast}, time.Hour, 0},
		"an option, then a policy": {nil, []core.CallOption{ttl, failFast, policy(t, adaptive, wait)}, adaptively, time.Second},
		"a policy within a policy": {nil, []core.CallOption{policy(t, adaptive, policy(t, ttl, failFast), wait)}, time.Hour, time.Second},
		"two policies":             {nil, []core.CallOption{policy(t, adaptive, failFast), policy(t, wait)}, adaptively, time.Second},
		"a policy, and a zero one": {nil, []core.CallOption{policy(t, ttl, failFast), core.Policy{}}, time.Hour, 0},
		"options of other matters": {nil, []core.CallOption{ttl, failFast, core.WithRule("a"), core.WithMaxHold(time.Second)}, time.Hour, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			eng := newEngine(t, memstore.New(), tc.engine...)
			l := mustAcquire(t, eng, "k", tc.call...)
			wantEqual(t, "TTL", l.TTL(), tc.ttl)
			began := time.Now()
			_, err := eng.Acquire(bg, "k", tc.call...)
			if !errors.Is(err, core.ErrHeld) || errors.Is(err, core.ErrWaitTimeout) != (tc.waits > 0) || time.Since(began) != tc.waits {
				t.Errorf("error %v after %v, want to wait for %v", err, time.Since(began), tc.waits)
			}
			mustRelease(t, l)
		})
	}
}

func TestSetsAreBounded(t *testing.T) {
	var many []core.Claim // one more than is allowed
	for i := range driver.MaxClaims + 1 {
		many = append(many, core.Exclusive(fmt.Sprintf("g/%d", i)))
	}
	spy, eng := newSpied(t)
	err := eng.DoAll(bg, many, func(context.Context) error { t.Error("it ran without its locks"); return nil }, core.WithRunUnlocked())
	wantOnly(t, err, core.ErrInvalidClaim)
	wantOnly(t, errOf(eng.AcquireAll(bg, many)), core.ErrInvalidClaim)
	check(t, strings.Contains(err.Error(), "4097 claims") && spy.requests() == 0, "%v; the store was asked %d times", err, spy.requests())
	// The most that is allowed, and the level that the engine adds to it.
	l, err := eng.AcquireAll(bg, many[1:], core.WithHierarchy())
	must(t, err)
	wantEqual(t, "claims", len(l.Claims()), driver.MaxClaims+1)
	mustRelease(t, l)
}

// Messages say which key, and never who holds it: they may reach the caller of a
// service.
func TestMessages(t *testing.T) {
	const key, holder = "user:42", "host-7/1/1/abc/0123456789abcdef0123456789abcdef"
	for want, err := range map[string]error{
		`"user:42" is held by another`:                  &core.HeldError{Key: key, Holder: holder},
		`3 callers already wait for "user:42"`:          &core.TooManyWaitersError{Key: key, Limit: 3},
		`3 callers already wait`:                        &core.TooManyWaitersError{Limit: 3},
		`lease on "user:42" lost: max hold`:             &core.LeaseLostError{Key: key, Reason: driver.LossMaxHold},
		`not held: the context has no lease`:            core.AssertHeld(bg, core.Exclusive(key)),
		`does not support permits`:                      &driver.UnsupportedError{Feature: "permits"},
		`store unavailable: acquire: connection closed`: &core.UnavailableError{Op: "acquire", Err: errors.New("connection closed")},
	} {
		got := err.Error()
		check(t, strings.HasPrefix(got, "keyturn: ") && strings.Contains(got, want) && !strings.Contains(got, holder), "%q, want %q", got, want)
	}
}

// The bound that cut a silent store short does not look like the caller's own;
// what else the store said can be reached.
func TestOutageHidesTheContextOnly(t *testing.T) {
	cause := errors.New("connection reset")
	wantOnly(t, &core.UnavailableError{Err: context.DeadlineExceeded}, core.ErrUnavailable)
	if err := error(&core.UnavailableError{Err: cause}); !errors.Is(err, cause) {
		t.Errorf("%v hides its cause", err)
	}
}

// mostNames is what fits on two screens of go doc, methods included. A name that only authors
// of stores, hooks or middlewares write belongs to the package that docs/architecture.md has for
// them.
const mostNames = 117

func TestNoMoreNamesThanAUserCanRead(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	must(t, err)
	names := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		must(t, err)
		ast.FileExports(file)
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil || token.IsExported(strings.TrimLeft(types.ExprString(decl.Recv.List[0].Type), "*")) {
					names++
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if values, are := spec.(*ast.ValueSpec); are {
						names += len(values.Names)
					} else if _, is := spec.(*ast.TypeSpec); is {
						names++
					}
				}
			}
		}
	}
	check(t, names >= 50 && names <= mostNames, "core exports %d names and methods, want %d at most", names, mostNames)
}
