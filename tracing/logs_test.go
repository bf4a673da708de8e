package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(tracing.LogHandler(slog.NewTextHandler(&out, nil)))
	log.InfoContext(context.Background(), "outside")
	log.With("a", 1).InfoContext(inTrace(1, trace.FlagsSampled), "inside")
	outside, inside, _ := strings.Cut(out.String(), "\n")
	if strings.Contains(outside, "trace_id") {
		t.Errorf("no trace, but %s", outside)
	}
	if want := "msg=inside a=1 trace_id=ab010000000000000000000000000000 span_id=cd01000000000000\n"; !strings.HasSuffix(inside, want) {
		t.Errorf("%s, want %s", inside, want)
	}
	if log := slog.New(tracing.LogHandler(nil)); !log.Enabled(context.Background(), slog.LevelInfo) {
		t.Error("without a handler it is not the default one")
	}
}

// TestLogHandlerKeepsTheRules of slog's own handlers.
func TestLogHandlerKeepsTheRules(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return tracing.LogHandler(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) (record map[string]any) {
		must(t, json.Unmarshal(out.Bytes(), &record))
		return record
	})
}

// TestALossIsLoggedInItsTrace: from the line one search leads to the hold.
func TestALossIsLoggedInItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newScene(t)
		s.eng = newLoggingEngine(t, s.store, slog.New(tracing.LogHandler(slog.NewTextHandler(&out, nil))), core.WithHooks(s.obs))
		s.want(s.eng.Do(s.ctx, key, s.work(2*time.Second), core.WithMaxHold(time.Second)), core.ErrLeaseLost)
		s.finish()
		in := s.rec.named(semconv.SpanHold)[0].SpanContext()
		if want := fmt.Sprintf("trace_id=%s span_id=%s\n", in.TraceID(), in.SpanID()); !strings.HasSuffix(out.String(), want) {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
		if strings.Contains(out.String(), key) {
			t.Errorf("the key is in the log: %s", out.String())
		}
	})
}
