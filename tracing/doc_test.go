package tracing_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// scenes are those of everything: whole tests only read them.
var scenes []*scene

// everything plays all plays, with as little of whom and what as there may be, and with all of it.
func everything(t *testing.T) []*scene {
	t.Helper()
	if scenes != nil {
		return scenes
	}
	for _, opts := range [][]tracing.Option{nil, {tracing.WithRawKeys(), tracing.WithOwners()}} {
		for _, name := range slices.Sorted(maps.Keys(plays)) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, opts...)
				plays[name](s)
				s.finish()
				scenes = append(scenes, s)
			})
		}
	}
	return scenes
}

func allSpans(t *testing.T) (spans []*span) {
	t.Helper()
	for _, s := range everything(t) {
		spans = append(spans, s.rec.spans...)
	}
	return spans
}

// table reads the rows of the table under a heading of the package comment.
func table(t *testing.T, heading string) [][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	must(t, err)
	_, section, found := strings.Cut(file.Doc.Text(), "# "+heading+"\n")
	if !found {
		t.Fatalf("doc.go has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n# ")
	gap := regexp.MustCompile(`\s{2,}`)
	var rows [][]string
	for line := range strings.Lines(section) {
		if row, ok := strings.CutPrefix(line, "\t"); ok {
			rows = append(rows, gap.Split(strings.TrimSpace(row), -1))
		}
	}
	return rows[1:] // the first says what the columns are
}

// constants reads the values of a file's constants whose names match.
func constants(t *testing.T, file, names string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	must(t, err)
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !regexp.MustCompile(names).MatchString(spec.Names[0].Name) {
			return true
		}
		ast.Inspect(spec.Values[0], func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				value, _ := strconv.Unquote(lit.Value)
				values = append(values, value)
			}
			return true
		})
		return true
	})
	return values
}

// pairs is a set of things said of one another, such as "x on y".
type pairs map[string]bool

func (p pairs) add(a, b string) { p[a+" | "+b] = true }

// of is a set of names.
func of(names []string) pairs {
	p := pairs{}
	for _, name := range names {
		p.add(name, "")
	}
	return p
}

func same(t *testing.T, what string, documented, real pairs) {
	t.Helper()
	for p := range documented {
		check(t, real[p], "%s: documented, but not so: %s", what, p)
	}
	for p := range real {
		check(t, documented[p], "%s: not documented: %s", what, p)
	}
}

func TestSpansAndAttributesAreAsDocumented(t *testing.T) {
	documented, names := pairs{}, pairs{}
	types := make(map[string]string)
	for _, row := range table(t, "Attributes") {
		name, kind, on := row[0], row[1], row[2]
		names.add(name, "")
		types[name] = kind
		for place := range strings.SplitSeq(on, ", ") {
			if place != "-" {
				documented.add(name, place)
			}
		}
	}
	same(t, "names", names, of(constants(t, "semconv/spans.go", "Key$")))

	seen, seenPlaces := pairs{}, pairs{}
	note := func(place string, attrs map[attribute.Key]attribute.Value) {
		for name, value := range attrs {
			seen.add(string(name), strings.TrimPrefix(place, "keyturn."))
			want := types[string(name)]
			check(t, typeName(value) == want, "%s is a %s, documented as %s", name, typeName(value), want)
		}
	}
	for _, s := range allSpans(t) {
		note(s.name, s.attrs)
		if strings.HasPrefix(s.name, "keyturn.") {
			seenPlaces.add(s.name, "")
		}
		for _, e := range s.events {
			note(e.name, e.attrs)
			seenPlaces.add(e.name, "")
		}
	}
	same(t, "attributes", documented, seen)
	same(t, "spans and events", of(constants(t, "semconv/spans.go", "^(Span|Event)")), seenPlaces)
}

func typeName(v attribute.Value) string {
	switch v.Type() {
	case attribute.STRING:
		return "string"
	case attribute.STRINGSLICE:
		return "string[]"
	case attribute.INT64:
		return "int"
	case attribute.FLOAT64:
		return "double"
	case attribute.BOOL:
		return "bool"
	}
	return v.Type().String()
}

func TestOutcomesAreAsDocumented(t *testing.T) {
	places, errorTypes, outcomes, allTypes := pairs{}, pairs{}, pairs{}, pairs{}
	for _, row := range table(t, "Outcomes") {
		outcomes.add(row[0], "")
		for place := range strings.SplitSeq(row[1], ", ") {
			places.add(row[0], place)
		}
		if len(row) < 4 {
			errorTypes.add(row[0], "")
			continue
		}
		for typ := range strings.SplitSeq(row[3], ", ") {
			errorTypes.add(row[0], typ)
			allTypes.add(typ, "")
		}
	}
	same(t, "outcomes", outcomes, of(constants(t, "semconv/outcomes.go", "^Outcome")))
	same(t, "error types", allTypes, of(constants(t, "semconv/outcomes.go", "^Error")))

	seenPlaces, seenTypes := pairs{}, pairs{}
	for _, s := range allSpans(t) {
		place, ours := strings.CutPrefix(s.name, "keyturn.")
		if !ours {
			continue
		}
		outcome := s.attrs[semconv.OutcomeKey].AsString()
		errorType := s.attrs[semconv.ErrorTypeKey].AsString()
		seenPlaces.add(outcome, place)
		seenTypes.add(outcome, errorType)
		check(t, (s.status == codes.Error) == (errorType != "") && s.status != codes.Ok, "%s with outcome %s and error type %q has the status %v", s.name, outcome, errorType, s.status)
		check(t, s.kind == trace.SpanKindInternal, "%s is of kind %v", s.name, s.kind)
	}
	same(t, "outcomes of spans", places, seenPlaces)
	same(t, "error types of outcomes", errorTypes, seenTypes)
}
