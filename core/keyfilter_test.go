package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/core/observe"
)

// TestKeyFilter: no log line, hook or error has a key of the program, whatever happens; and they
// have what the filter makes of it.
func TestKeyFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said bytes.Buffer
		say := func(what string, of ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&said, "%s: %+v\n", what, of)
		}
		fails := func(what string, err error) {
			check(t, err != nil, "%s: no error", what)
			var held *core.HeldError
			var lost *core.LeaseLostError
			errors.As(err, &held)
			errors.As(err, &lost)
			if out := (*core.UnavailableError)(nil); errors.As(err, &out) {
				say(what, out.Key)
			}
			say(what, err, held, lost)
		}
		var all observe.Hooks
		for _, name := range hookNames() {
			setHook(&all, name, func(args []any) any {
				ctx := args[0]
				for i, arg := range args {
					switch v := arg.(type) {
					case context.Context:
						args[i] = nil
					case observe.Lease:
						args[i] = v.Claims()
					case *core.UnavailableError:
						args[i] = *v // with its fields
					}
				}
				if name != "StoreCalled" { // whose error is the store's own
					say(name, args...)
				}
				if name == "Trace" {
					return ""
				}
				return ctx
			})
		}
		opts := []core.EngineOption{
			core.WithHooks(all),
			core.WithKeyFilter(func(key string) string { return strings.ReplaceAll(key, "ann", "***") }),
			core.WithLogger(slog.New(slog.NewTextHandler(writer(func(line []byte) { say("log", string(line)) }), nil))),
		}
		_, _, errs := wholeLife(t, opts...)
		for _, err := range slices.DeleteFunc(errs, func(err error) bool { return err == nil }) {
			fails("error", err)
		}
		eng := newEngine(t, newSpy(), append(opts, core.WithMaxWaiters(1))...)
		l := mustAcquire(t, eng, "user:ann")
		wantEqual(t, "what the program itself sees", l.Key(), "user:ann")
		go func() { fails("wait", eng.Do(bg, "user:ann", noWork, core.WithMaxWait(time.Second))) }()
		synctest.Wait()
		fails("too many", eng.Do(bg, "user:ann", noWork))
		time.Sleep(2 * time.Second)
		fails("circle of once", errOf(eng.Once(l.Context(), "user:ann", nothing)))
		fails("circle with another process", errOf(eng.Once(carry.Accept(bg, carry.Leases(l.Context())), "user:ann", nothing)))
		fails("force", errOf(eng.ForceRelease(bg, "user:ann", "a test", driver.Holder{Owner: "x", Token: 1})))
		const bad = "user:ann\x00"
		fails("bad key", errors.Join(eng.Do(bg, bad, noWork), errOf(eng.Inspect(bg, bad)), errOf(eng.Forget(bg, bad, "a test")), errOf(eng.AdvanceVersion(bg, bad, 1))))
		wantNil(t, eng.Do(bg, bad, noWork, core.WithShadow()))
		for _, err := range eng.List(bg, bad) {
			fails("bad prefix", err)
		}
		fails("no JSON", errOf(core.Once(bg, eng, "ann", func(context.Context) (chan int, error) { return nil, nil })))
		wantNil(t, errOf(eng.Once(bg, "ann", counted("no JSON either", new(int)))))
		fails("other type", errOf(core.Once[int](bg, eng, "ann", func(context.Context) (int, error) { return 0, nil })))
		fails("bad set", eng.DoAll(bg, exclusive("ann", "ann", "ann{"), noWork))
		gone := callerFor(t, 0, -1)
		fails("gone", eng.Do(gone, "user:ann", noWork))
		under, release := l.Attach(gone)
		defer release()
		fails("gone nested", eng.Do(under, "user:ann", noWork))
		mustRelease(t, l)
		once := func(content string) error {
			return errOf(eng.Once(bg, "msg:ann", counted("r", new(int)), core.WithFingerprint([]byte(content)), core.WithResultLimit(0)))
		}
		wantNil(t, once("a"))
		fails("other content", once("b"))
		fails("no result", once("a"))
		if had, err := eng.Forget(bg, "msg:ann", "a test"); err != nil || !had {
			t.Error(had, err)
		}

		whatOthersSay(t, fails, opts...)

		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(said.String()) {
			check(t, !strings.Contains(line, "ann"), "said %q", line)
		}
		for _, want := range []string{"Blocked: [<nil> {Claims:[{Key:user:***", "Owed: ", "Forced: [<nil> {Key:***:k", "Forced: [<nil> {Key:msg:***", "bad set: ", "key=***:k"} {
			check(t, strings.Contains(said.String(), want), "nothing said %q", want)
		}
		wantEqual(t, "shown", eng.ShowKey("ann"), "***")
	})
}

// writer calls a function with what is written.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// leaky is a store that tells operators only errors with the key.
type leaky struct{ *spy }

var errLeak = &core.UnavailableError{Op: "op", Key: `user:"ann"`, Err: errors.New(`the row of "user:\"ann\"" is locked`)}

func (leaky) AdvanceVersion(context.Context, string, uint64, time.Duration) (uint64, error) {
	return 0, errLeak
}

func (leaky) Inspect(context.Context, string) (info driver.LockInfo, err error) { return info, errLeak }

func (leaky) Forget(context.Context, string) (bool, error) { return false, errLeak }

func (leaky) Downgrade(context.Context, driver.Grant) error { return errLeak }

func (leaky) List(context.Context, driver.Listing) ([]driver.LockInfo, string, error) {
	return nil, "", errors.New("a bad value at user:ann")
}

func (leaky) ForceRelease(context.Context, string, string, ...driver.Holder) ([]driver.Holder, error) {
	return nil, errLeak
}

// whatOthersSay makes the errors of a store, of an executor and of assertions. The circuit tells the call for bob of
// the one that opened it.
func whatOthersSay(t *testing.T, fails func(what string, err error), opts ...core.EngineOption) {
	s, b := leaky{newSpy()}, newBook()
	eng := newEngine(t, s, opts...)
	l, shared := mustAcquire(t, eng, errLeak.Key), mustAcquire(t, eng, "ann", core.WithShared())
	ann := core.Exclusive("ann")
	fails("assert", errors.Join(core.AssertHeld(l.Context(), ann), core.AssertHeld(shared.Context(), ann), core.AssertHeld(bg, ann)))
	b.err = fmt.Errorf("%w: once %q", core.ErrRolledBack, "k:ann")
	fails("executor", errOf(eng.Once(bg, "k:ann", nothing, core.WithExecutor(b))))
	fails("inspect, and what else operators do", errors.Join(errOf(eng.Inspect(bg, errLeak.Key)),
		errOf(eng.Forget(bg, errLeak.Key, "a test")), errOf(eng.ForceRelease(bg, errLeak.Key, "a test"))))
	fails("downgrade", errors.Join(l.Downgrade(bg), errOf(eng.AdvanceVersion(bg, errLeak.Key, 1))))
	for _, err := range eng.List(bg, "") {
		fails("list", err)
	}
	of := func(context.Context, driver.Grant) error { return errLeak }
	s.change(func() {
		s.onAcquire = func(context.Context, driver.Request) error { return errLeak }
		s.onRenew, s.onRelease = of, of
	})
	fails("extend", l.Extend(bg, 0))
	fails("release", l.Release(bg))
	fails("acquire", eng.Do(bg, errLeak.Key, noWork))
	time.Sleep(defaultCircuit)
	fails("begin", errOf(eng.Once(bg, errLeak.Key, nothing)))
	fails("the circuit", eng.Do(bg, "bob", noWork))
	time.Sleep(defaultTTL / 2) // for a renewal
	s.reach()
	mustRelease(t, shared)
}
