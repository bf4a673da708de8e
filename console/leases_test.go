package console_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/store/memstore"
)

// These tests use engines, not a store that is made up: a lease is not always where a store shows it.

type tracing struct{}

func traced(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, tracing{}, trace(n))
}

// house is some processes on one store, and a console over it.
type house struct {
	*testing.T
	engines []*core.Engine
	console *console.Console
}

func newHouse(t *testing.T, engines int, opts ...core.EngineOption) *house {
	t.Helper()
	h := &house{T: t}
	hooks := observe.Hooks{Trace: func(ctx context.Context) string {
		text, _ := ctx.Value(tracing{}).(string)
		return text
	}}
	store := memstore.New()
	for i := range engines + 1 { // the last one is the console's
		st := store
		if i > 0 {
			st = store.Peer()
		}
		h.engines = append(h.engines, ruletest.NewEngine(t, st, append([]core.EngineOption{core.WithHooks(hooks), core.WithTTL(30 * time.Second)}, opts...)...))
	}
	h.console = open(t, h.engines[engines], console.WithOperator(alice), console.WithHistory())
	return h
}

// page returns a page, a little later.
func (h *house) page(path string) string {
	h.Helper()
	time.Sleep(3 * time.Second)
	synctest.Wait()
	return get(h.T, h.console, path)
}

var (
	box  = regexp.MustCompile(`name="lease" value="([^"]+)"`)
	bars = regexp.MustCompile(`<rect class="p\d[^>]*><title>([^<]*?), (perhaps idle, )?\d`)
)

// force takes key from the lease that its page shows.
func (h *house) force(key string) {
	h.Helper()
	text := h.page("/key?k=" + url.QueryEscape(key))
	m := box.FindStringSubmatch(text)
	if m == nil {
		h.Fatalf("no lease is shown:\n%s", text)
	}
	if res := post(h.console, "/force", form(key, html.UnescapeString(m[1]))); res.StatusCode != http.StatusOK {
		h.Fatalf("%s: %s", res.Status, body(h.T, res))
	}
}

// had returns the processes in the band of key.
func had(t *testing.T, page string) (labels []string) {
	t.Helper()
	for _, m := range bars.FindAllStringSubmatch(page, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

func forced(t *testing.T, ctx context.Context) {
	t.Helper()
	synctest.Wait()
	var lost *driver.LeaseLostError
	if err := context.Cause(ctx); !errors.As(err, &lost) || lost.Reason != driver.LossForced || lost.Detail != "alice: hangs" {
		t.Errorf("the holder got %v", err)
	}
}

// A lease that was handed on is one lease to the store: one bar in its process's colour, and one to take away.
func TestALeaseThatWasHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		eng := h.engines[0]
		first, err := eng.Acquire(traced(context.Background(), 1), "k")
		must(t, err)
		next := make(chan *core.Lease)
		go func() {
			lease, err := eng.Acquire(traced(context.Background(), 2), "k")
			wantNil(t, err)
			next <- lease
		}()
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		must(t, first.Release(context.Background()))
		second := <-next
		text := h.page("/key?k=k")
		labels := had(t, text)
		check(t, len(labels) == 1, "bars of %q", labels)
		contains(t, text, "Its process may have handed the lease on", trace(1)[3:35])
		h.force("k")
		time.Sleep(30 * time.Second) // the next renewal tells
		forced(t, second.Context())
		_ = second.Release(context.Background()) // it is lost
	})
}

func TestALeaseThatLingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1, core.WithLinger(time.Minute))
		work := func() error {
			return h.engines[0].Do(context.Background(), "k", func(context.Context) error { return nil })
		}
		must(t, work())
		contains(t, h.page("/"), "lingers</em>")
		text := h.page("/key?k=k")
		contains(t, text, "perhaps nobody uses it", `lingers"`, "perhaps idle")
		contains(t, h.page("/waits"), "Nobody waits for anybody")
		h.force("k")
		contains(t, h.page("/key?k=k"), "Nobody holds it")
		wantNil(t, work())
	})
}

// Of the callers of a process that wait for the same key, the first one stands in the store's line, also if their
// own process holds the key. The store does not know of the others.
func TestWaitersWithinAProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		holder, err := h.engines[0].Acquire(context.Background(), "k")
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		wait := func(eng *core.Engine) {
			if lease, err := eng.Acquire(ctx, "k"); err == nil {
				_ = lease.Release(context.Background())
			}
		}
		arrows := func(want int) {
			t.Helper()
			text := h.page("/waits")
			check(t, strings.Count(text, `class="arrow`) == want, "want %d arrows:\n%s", want, text)
		}
		go wait(h.engines[0])
		go wait(h.engines[0])
		contains(t, h.page("/"), "<b>1</b> for")
		contains(t, h.page("/key?k=k"), "In line", "A process has one place in line")
		arrows(1) // to itself
		go wait(h.engines[1])
		go wait(h.engines[1])
		contains(t, h.page("/"), "<b>2</b> for")
		arrows(2)
		h.force("k")
		time.Sleep(30 * time.Second)
		forced(t, holder.Context())
		_ = holder.Release(context.Background()) // it is lost
		cancel()
		synctest.Wait()
	})
}

// A request holds a key in one process, and waits for another key in a second process, to which it has carried
// its lease.
func TestADeadlockOfACarriedLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		lend, borrow, other := h.engines[0], h.engines[1], h.engines[2]
		must := func(lease *core.Lease, err error) *core.Lease {
			t.Helper()
			must(t, err)
			return lease
		}
		a := must(lend.Acquire(traced(context.Background(), 1), "a"))
		b := must(other.Acquire(traced(context.Background(), 2), "b"))
		there := carry.Accept(traced(context.Background(), 1), carry.Leases(a.Context()))
		borrowed := must(borrow.Acquire(there, "a"))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		wait := func(eng *core.Engine, ctx context.Context, key string) {
			lease, err := eng.Acquire(ctx, key, core.WithMaxWait(time.Hour))
			if err == nil {
				err = lease.Release(context.Background())
			}
			ended <- err
		}
		go wait(borrow, borrowed.Context(), "b")
		go wait(other, traced(ctx, 2), "a")
		text := h.page("/waits")
		contains(t, text, "Deadlock, for", ", under a lease of")
		labels := had(t, h.page("/key?k=a"))
		check(t, len(labels) == 1, "the band of the carried lease: %q", labels)
		h.force("b")
		wantIs(t, "the request that is left over", <-ended, nil)
		if text := h.page("/waits"); strings.Contains(text, "Deadlock, for") {
			t.Errorf("the deadlock stays:\n%s", text)
		}
		cancel()
		<-ended
		for _, lease := range []*core.Lease{borrowed, a, b} {
			_ = lease.Release(context.Background()) // b is lost
		}
	})
}
