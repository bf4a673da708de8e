package counters_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/counters"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, wantNil, wantIs = checktest.Must, checktest.WantNil, checktest.WantIs

var (
	_ expvar.Var   = (*counters.Counters)(nil)
	_ http.Handler = (*counters.Counters)(nil)
)

func page(c *counters.Counters) string {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", http.NoBody))
	return w.Body.String()
}

// What an engine does has the numbers and names that Prometheus gets from package tracing.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counters.New()
		eng, err := core.New(memstore.New(), core.WithHooks(c.Hooks()), core.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		ctx, rule := t.Context(), core.WithRule(`r"\1`)
		hold := func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		done := make(chan error, 1)
		go func() { done <- eng.Do(ctx, "k", hold, rule) }()
		synctest.Wait()
		wantIs(t, "error", eng.Do(ctx, "k", hold, rule, core.WithFailFast()), core.ErrHeld)
		wantNil(t, errors.Join(<-done))
		for range 2 {
			wantNil(t, checktest.ErrorOf(eng.Once(ctx, "once", func(context.Context) ([]byte, error) { return nil, nil }, rule)))
		}
		lease, err := eng.Acquire(ctx, "lost", rule)
		must(t, err)
		wantNil(t, checktest.ErrorOf(eng.ForceRelease(ctx, "lost", "test")))
		_ = lease.Release(ctx)
		wantNil(t, eng.Close(ctx))
		text := page(c)
		for _, want := range []string{
			"# TYPE keyturn_wait_duration_seconds summary\n", `keyturn_wait_duration_seconds_count{keyturn_outcome="granted",keyturn_rule="r\"\\1"`,
			`keyturn_wait_duration_seconds_count{keyturn_outcome="held",`, `keyturn_hold_duration_seconds_sum{keyturn_outcome="released",`,
			"# TYPE keyturn_conflicts_total counter\n", `keyturn_conflicts_total{keyturn_rule="r\"\\1"`, "keyturn_duplicates_total{", "keyturn_losses_total{",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is missing in\n%s", want, text)
			}
		}
		if strings.Contains(text, `"k"`) || strings.Contains(text, "shadow") {
			t.Error(text)
		}
		var all map[string]any
		if err := json.Unmarshal([]byte(c.String()), &all); err != nil || len(all) != strings.Count(text, "_count{")+strings.Count(text, "_total{") {
			t.Errorf("%v, %d series in JSON\n%s", err, len(all), text)
		}
	})
}

// A log without an SDK shows what a shadow rule would have done.
func TestLogShadows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counters.New()
		eng, err := core.New(memstore.New(), core.WithHooks(c.Hooks()), core.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			c.LogShadows(ctx, slog.New(slog.NewTextHandler(&log, nil)), time.Minute)
			close(ended)
		}()
		for range 3 {
			go func() {
				_ = eng.Do(ctx, "k", func(context.Context) error { time.Sleep(5 * time.Second); return nil },
					core.WithShadow(), core.WithRule("members"), core.WithMaxWait(6*time.Second))
			}()
			synctest.Wait()
		}
		wantNil(t, eng.Do(ctx, "k", func(context.Context) error { return nil }, core.WithShadow(), core.WithRule("members"), core.WithFailFast()))
		for _, content := range []string{"a", "b"} { // the second one would have been refused
			wantNil(t, checktest.ErrorOf(eng.Once(ctx, "once", func(context.Context) ([]byte, error) { return nil, nil },
				core.WithShadow(), core.WithRule("members"), core.WithFingerprint([]byte(content)))))
			synctest.Wait()
		}
		time.Sleep(3 * time.Minute)
		cancel()
		<-ended
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "rule=members calls=6 waited=2 refused=3 duplicates=0") {
			t.Error(text)
		}
		wantNil(t, eng.Close(t.Context()))
	})
}

// Two count the same engine, each all of it.
func TestTwoCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := counters.New(), counters.New()
		eng, err := core.New(memstore.New(), core.WithHooks(outer.Hooks()), core.WithHooks(inner.Hooks()))
		must(t, err)
		hold := func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		go func() { _ = eng.Do(t.Context(), "k", hold) }()
		synctest.Wait()
		wantNil(t, eng.Do(t.Context(), "k", hold))
		wantNil(t, eng.Close(t.Context()))
		checktest.That(t, page(outer) == page(inner) && strings.Contains(page(outer), "conflicts_total{"), "%s\n%s", page(outer), page(inner))
	})
}

// However many rules there are, the series are bounded.
func TestManyRules(t *testing.T) {
	c := counters.New()
	hooks := c.Hooks()
	for i := range 3000 {
		hooks.AcquireEnd(t.Context(), observe.Acquisition{Rule: fmt.Sprint("r", i)}, nil, &driver.HeldError{})
	}
	if n := strings.Count(page(c), "_count{"); n != 1025 || !strings.Contains(page(c), `keyturn_rule="_OTHER"} 1976`) {
		t.Errorf("%d series", n)
	}
}
