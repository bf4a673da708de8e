package observe

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// at is so many milliseconds after the beginning.
func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)) }

func made(process, trace, id, parent, name string, begin, end int) Span {
	return Span{Process: process, Trace: trace, ID: id, Parent: parent, Name: name, Begin: at(begin), End: at(end)}
}

// two are the traces of a request that held a key and of one that waited for it.
func two() (waited, holder []Span) {
	holder = []Span{
		made("client", "A", "1", noParent, "client", 0, 50),
		made("service 1", "A", "2", "1", semconv.SpanAcquire, 5, 10),
		made("service 1", "A", "3", "1", semconv.SpanHold, 10, 40),
	}
	waited = []Span{
		made("client", "B", "1", noParent, "client", 10, 100),
		made("service 2", "B", "2", "1", semconv.SpanAcquire, 20, 40),
		made("service 2", "B", "3", "1", semconv.SpanHold, 40, 90),
	}
	waited[1].Rule, waited[1].Outcome = "group-members", semconv.OutcomeGranted
	waited[1].Links = []Link{{semconv.LinkBlockedBy, "A", "2"}}
	return waited, holder
}

func TestWaterfall(t *testing.T) {
	var out strings.Builder
	if err := NewWaterfall(two()).WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `
The request that waited
client     client                                                                     |    ============================================|   90.00 ms
service 2    keyturn.acquire  group-members  granted  blocked by [1]                  |         ..........                             |   20.00 ms
service 2    keyturn.hold                                                             |                   ########################     |   50.00 ms

The request it waited for, which its link leads to
client     client                                                                     |========================                        |   50.00 ms
service 1    keyturn.acquire  [1]                                                     |  ..                                            |    5.00 ms
service 1    keyturn.hold                                                             |    ###############                             |   30.00 ms
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPictureIsWellFormed(t *testing.T) {
	waited, holder := two()
	waited[0].Name = `<script>&"`
	var out bytes.Buffer
	if err := NewWaterfall(waited, holder).WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	texts, links := 0, 0
	for decoder := xml.NewDecoder(&out); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "text":
				texts++
			case "path":
				links++
			case "script":
				t.Error("a name became an element")
			}
		}
	}
	if texts != 2+3*6 || links != 1 {
		t.Errorf("%d texts and %d links", texts, links)
	}
}

// collected gives a collector what these processes would have sent.
func collected(t *testing.T, reports ...Report) *Collector {
	t.Helper()
	c, err := Collect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, r := range reports {
		if err := (sender{process: r.Process, url: c.URL}).send(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestBlocked(t *testing.T) {
	waited, holder := two()
	near, _ := two() // waited longer, for a holder in its own process
	for i := range near {
		near[i].Trace, near[i].Process, near[i].End = "C", "service 1", at(200)
	}
	for name, tt := range map[string]struct {
		spans []Span
		want  string
	}{
		"nothing yet":               {nil, ""},
		"nobody waited":             {holder, ""},
		"who waited":                {append(holder, waited...), "B"},
		"the holder is not there":   {waited, ""},
		"the holder has no hold":    {append(holder[:2:2], waited...), ""},
		"the root is not there":     {append(holder, waited[1:]...), ""},
		"another process is better": {append(append(near, holder...), waited...), "B"},
		"its own is good enough":    {append(near, holder...), "C"},
	} {
		t.Run(name, func(t *testing.T) {
			got, of, ok := collected(t, Report{Spans: tt.spans}).Blocked()
			if ok != (tt.want != "") {
				t.Fatalf("found: %v", ok)
			}
			if ok && (got[0].Trace != tt.want || of[0].Trace != "A" || len(got) != 3) {
				t.Errorf("traces %v and %v", got, of)
			}
		})
	}
}

func TestCollectorRefusesNonsense(t *testing.T) {
	resp, err := http.Post(collected(t).URL, "application/json", strings.NewReader("what?"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %s", resp.Status)
	}
}

// TestTelemetry: what a process does reaches the collector, and Prometheus.
func TestTelemetry(t *testing.T) {
	c := collected(t)
	telemetry, err := Start(context.Background(), "service 1", c.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(context.Background(), "work")
	span.End()
	counter, err := otel.Meter("test").Int64Counter("work")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(context.Background(), 3)
	resp, err := http.Get(c.Metrics()["service 1"])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "work_total 3") {
		t.Errorf("metrics %q, %v", text, err)
	}
	if err := telemetry.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(c.spans) != 1 || c.spans[0].Name != "work" || c.spans[0].Process != "service 1" {
		t.Errorf("spans %v", c.spans)
	}
}

func TestNoCollectorIsAnError(t *testing.T) {
	c := collected(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	telemetry, err := Start(context.Background(), "service 1", c.URL)
	if err == nil {
		t.Error("nobody there, and no error")
	}
	if err := telemetry.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := (*Telemetry)(nil).Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
