package sdktest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/tracing/semconv"
)

var update = flag.Bool("update", false, "write testdata anew")

// spans is a span processor that knows also what was begun and not ended.
type spans struct {
	mu    sync.Mutex
	begun []sdktrace.ReadWriteSpan // in order of their start
	ended map[trace.SpanID]int
}

func (s *spans) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, span)
}

func (s *spans) OnEnd(span sdktrace.ReadOnlySpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = make(map[trace.SpanID]int)
	}
	s.ended[span.SpanContext().SpanID()]++
}

func (s *spans) Shutdown(context.Context) error   { return nil }
func (s *spans) ForceFlush(context.Context) error { return nil }

// open lists the spans that were not ended.
func (s *spans) open() (open []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.begun {
		if s.ended[span.SpanContext().SpanID()] == 0 {
			open = append(open, span.Name())
		}
	}
	return open
}

// named returns the spans of that name, in order of their start.
func (s *spans) named(name string) (found []sdktrace.ReadWriteSpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.begun {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

func attr(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, kv := range span.Attributes() {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}

// tree writes the spans as text: which span is below which, and where links lead. Spans that
// begin at the same time may come in any order, so tree sorts them by their text.
func (s *spans) tree() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.branch(trace.SpanID{}, "")
}

func (s *spans) branch(parent trace.SpanID, indent string) string {
	var branches []string
	for _, span := range s.begun {
		if span.Parent().SpanID() != parent {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s%s [%s]", indent, span.Name(), span.SpanKind())
		for _, key := range []attribute.Key{semconv.RuleKey, semconv.OutcomeKey, semconv.ErrorTypeKey} {
			if v := attr(span, key); v != "" && strings.HasPrefix(span.Name(), "keyturn.") {
				fmt.Fprintf(&b, " %s", v)
			}
		}
		b.WriteByte('\n')
		for _, l := range span.Links() {
			fmt.Fprintf(&b, "%s  > %s %s\n", indent, l.Attributes[0].Value.String(), s.path(l.SpanContext.SpanID()))
		}
		b.WriteString(s.branch(span.SpanContext().SpanID(), indent+"  "))
		branches = append(branches, b.String())
	}
	slices.Sort(branches)
	return strings.Join(branches, "")
}

// path is where a span stands.
func (s *spans) path(id trace.SpanID) string {
	i := slices.IndexFunc(s.begun, func(span sdktrace.ReadWriteSpan) bool { return span.SpanContext().SpanID() == id })
	if i < 0 {
		return ""
	}
	return s.path(s.begun[i].Parent().SpanID()) + "/" + s.begun[i].Name()
}

// compare holds the tree against testdata/name.txt, and looks for what was left
// open.
func (o *observed) compare(t *testing.T, name string) {
	t.Helper()
	await(t, "all spans to end", func() bool { return len(o.open()) == 0 })
	got, file := o.tree(), filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	check(t, got == string(want), "%s: got\n%s\nwant\n%s", file, got, want)
}
