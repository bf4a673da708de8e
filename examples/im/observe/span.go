package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// Span is a span in the form in which processes send it.
type Span struct {
	Process       string
	Trace, ID     string
	Parent        string // sixteen zeros: none
	Name          string
	Begin, End    time.Time
	Failed        bool
	Rule, Outcome string
	Links         []Link
}

func (s Span) duration() time.Duration { return s.End.Sub(s.Begin) }

// Link leads to a span, perhaps of another trace.
type Link struct{ Kind, Trace, ID string }

// Report is what a process sends to the collector.
type Report struct {
	Process string
	Metrics string // where they are served; sent once
	Spans   []Span
}

// sender is a span exporter.
type sender struct{ process, url string }

func (s sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	var r Report
	for _, span := range spans {
		r.Spans = append(r.Spans, s.convert(span))
	}
	return s.send(ctx, r)
}

func (s sender) Shutdown(context.Context) error { return nil }

func (s sender) convert(span sdktrace.ReadOnlySpan) Span {
	out := Span{
		Process: s.process,
		Trace:   span.SpanContext().TraceID().String(), ID: span.SpanContext().SpanID().String(),
		Parent: span.Parent().SpanID().String(),
		Name:   span.Name(), Begin: span.StartTime(), End: span.EndTime(),
		Failed: span.Status().Code == codes.Error,
	}
	for _, kv := range span.Attributes() {
		switch kv.Key {
		case semconv.RuleKey:
			out.Rule = kv.Value.AsString()
		case semconv.OutcomeKey:
			out.Outcome = kv.Value.AsString()
		}
	}
	for _, l := range span.Links() {
		for _, kv := range l.Attributes {
			if kv.Key == semconv.LinkKey {
				out.Links = append(out.Links, Link{kv.Value.AsString(), l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()})
			}
		}
	}
	return out
}

func (s sender) send(ctx context.Context, r Report) error {
	r.Process = s.process
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the collector answers %s", resp.Status)
	}
	return nil
}
