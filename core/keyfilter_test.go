package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
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
		spy := newSpy()
		eng := newEngine(t, spy, core.WithMaxWaiters(1), core.WithHooks(all),
			core.WithKeyFilter(func(key string) string { return strings.ReplaceAll(key, "ann", "***") }),
			core.WithLogger(slog.New(slog.NewTextHandler(writer(func(line []byte) { say("log", string(line)) }), nil))))
		fails := func(what string, err error) {
			if err == nil {
				t.Errorf("%s: no error", what)
			}
			var held *core.HeldError
			var lost *core.LeaseLostError
			errors.As(err, &held)
			errors.As(err, &lost)
			say(what, err, held, lost)
		}
		nothing := noWork
		l := mustAcquire(t, eng, "user:ann", core.WithTTL(time.Second))
		if l.Key() != "user:ann" || l.Claims()[0].Key != "user:ann" {
			t.Errorf("the program itself sees %q", l.Key())
		}
		fails("held", eng.Do(bg, "user:ann", nothing, core.WithFailFast()))
		go func() { fails("wait", eng.Do(bg, "user:ann", nothing, core.WithMaxWait(time.Second))) }()
		synctest.Wait()
		fails("too many", eng.Do(bg, "user:ann", nothing))
		time.Sleep(2 * time.Second)
		_, once := eng.Once(l.Context(), "user:ann", func(context.Context) ([]byte, error) { return nil, nil })
		fails("circle of once", once)
		fails("bad key", eng.Do(bg, "user:ann\x00", nothing))
		fails("bad set", eng.DoAll(bg, []core.Claim{core.Exclusive("ann"), core.Exclusive("ann"), core.Exclusive("ann{")}, nothing))
		gone, cancel := context.WithCancel(bg)
		cancel()
		fails("gone", eng.Do(gone, "user:ann", nothing))
		fails("gone nested", eng.Do(contextOf(gone, l), "user:ann", nothing))
		if _, err := eng.ForceRelease(bg, "user:ann", "a test"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		fails("lost", l.Err())
		fails("released", l.Release(bg))
		mismatch := func(content string) error {
			_, err := eng.Once(bg, "msg:ann", func(context.Context) ([]byte, error) { return []byte("r"), nil }, core.WithFingerprint([]byte(content)), core.WithResultLimit(0))
			return err
		}
		wantNil(t, mismatch("a"))
		fails("other content", mismatch("b"))
		fails("no result", mismatch("a"))
		if had, err := eng.Forget(bg, "msg:ann", "a test"); err != nil || !had {
			t.Error(had, err)
		}
		l = mustAcquire(t, eng, "user:ann", core.WithTTL(time.Second))
		spy.change(func() { spy.onRelease = func(context.Context, driver.Grant) error { return errDown } })
		fails("unanswered", l.Release(bg))
		spy.mend()
		time.Sleep(10 * time.Second)

		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, "ann") {
				t.Errorf("said %q", line)
			}
		}
		for _, want := range []string{"Blocked: [<nil> {Claims:[{Key:user:***", "lost: ", "Owed: ", "Forced: [<nil> {Key:user:***", "Forced: [<nil> {Key:msg:***", "bad set: ", "key=user:***"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("nothing said %q", want)
			}
		}
		if eng.ShowKey("ann") != "***" {
			t.Error(eng.ShowKey("ann"))
		}
	})
}

// writer calls a function with what is written.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// contextOf is under l, and ends with ctx.
func contextOf(ctx context.Context, l *core.Lease) context.Context {
	under, _ := l.Attach(ctx)
	return under
}
