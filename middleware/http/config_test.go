package lockhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// bareStore has neither a ledger nor sets.
type bareStore struct{ driver.Store }

func (bareStore) Describe() driver.Description { return driver.Description{} }

func TestConstructionRefuses(t *testing.T) {
	eng := ruletest.NewEngine(t, memstore.New())
	plain := ruletest.NewEngine(t, bareStore{memstore.New()})
	byID := func(r *http.Request) string { return r.PathValue("id") }
	for _, tt := range []struct {
		name   string
		config interface{ ToMiddleware() (middleware, error) }
		want   []string // all of them in one error
		is     error
	}{
		{name: "no engine", config: lockhttp.SerializeConfig{Template: "a"}, want: []string{"want an engine"}},
		{name: "no key", config: lockhttp.SerializeConfig{Engine: eng}, want: []string{"neither a template nor a key function: want one of them"}},
		{name: "two keys", config: lockhttp.SerializeConfig{Engine: eng, Template: "a", Key: byID}, want: []string{"both a template and a key function"}},
		{name: "a template that does not parse", config: lockhttp.SerializeConfig{Engine: eng, Template: "user:{path.id"}, want: []string{"byte 13"}},
		{name: "unknown sources, every one", config: lockhttp.SerializeConfig{Engine: eng, Template: "{cookie.a}:{session.b}"}, want: []string{"{cookie.a}", "{session.b}", "no such source"}},
		{name: "elements of a path value", config: lockhttp.SerializeConfig{Engine: eng, Template: "{path.id[*]}"}, want: []string{"path has a single value"}},
		{name: "a store that takes one claim at a time", config: lockhttp.SerializeConfig{Engine: plain, Template: "m:{body.m[*].id}"}, want: []string{"several claims"}, is: errors.ErrUnsupported},
		{name: "a body for the handler that the key comes from", config: lockhttp.SerializeConfig{Engine: eng, Template: "{form.id}", StreamBody: true}, want: []string{"StreamBody(true)"}, is: core.ErrInvalidOption},
		{name: "a store without records", config: lockhttp.OnceConfig{Engine: plain, Template: "a"}, want: []string{"records"}, is: errors.ErrUnsupported},
		{name: "nobody says who calls", config: lockhttp.IdempotencyConfig{Engine: eng}, want: []string{"identifies the caller"}},
		{
			name:   "all of Idempotency at once",
			config: lockhttp.IdempotencyConfig{Header: "a b", Methods: []string{"post", ""}, BodyLimit: -1, ResultLimit: -1, Options: []core.CallOption{core.WithRetention(0)}},
			want:   []string{"want an engine", "identifies the caller", "Header(a b)", "Methods(post)", "Methods()", "BodyLimit", "ResultLimit", "WithRetention"},
			is:     core.ErrInvalidOption,
		},
		{
			name:   "all at once",
			config: lockhttp.OnceConfig{Template: "{cookie.a}", BodyLimit: -1, ResultLimit: -1, Headers: []string{"a b", "Content-Length"}, Options: []core.CallOption{core.WithMaxWait(-1)}},
			want:   []string{"want an engine", "{cookie.a}", "BodyLimit(-1)", "ResultLimit(-1)", `"a b"`, "Content-Length", "WithMaxWait"},
			is:     core.ErrInvalidOption,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tt.config.ToMiddleware()
			if err == nil || m != nil {
				t.Fatalf("ToMiddleware() = %v, want an error and nothing else", err)
			}
			for _, want := range append(tt.want, "lockhttp: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to say %q", err, want)
				}
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error = %v, want one that is %v", err, tt.is)
			}
		})
	}
}

func TestShortFormsPanicWhereTheOthersReturnAnError(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, memstore.New()))
	for name, make := range map[string]func() middleware{
		"Serialize":   func() middleware { return locks.Serialize("{cookie.a}") },
		"SerializeBy": func() middleware { return locks.SerializeBy(nil) },
		"Once":        func() middleware { return locks.Once("", core.WithRetention(0)) },
		"OnceBy":      func() middleware { return locks.OnceBy(nil) },
		"Idempotency": func() middleware { return locks.Idempotency(nil) },
		"no engine":   func() middleware { return lockhttp.New(nil).Serialize("a") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, ok := recover().(error); !ok {
					t.Error("no panic with an error")
				}
			}()
			make()
		})
	}
}

func TestSkipperAndBodyLimit(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	rule, err := lockhttp.SerializeConfig{
		Engine: eng, Template: "b:{body|hash}", BodyLimit: 10,
		Skipper: func(r *http.Request) bool { return r.FormValue("skip") != "" },
	}.ToMiddleware()
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.handle("PUT /", func(w http.ResponseWriter, r *http.Request) {
		_, locked := core.LeaseFrom(r.Context())
		fmt.Fprint(w, locked)
	}, rule)
	if a := s.Do("PUT", "/?skip=1", strings.Repeat("x", 11)); a.Body != "false" {
		t.Errorf("skipped: %+v", a)
	}
	if a := s.Do("PUT", "/", strings.Repeat("x", 10)); a.Body != "true" {
		t.Errorf("not skipped: %+v", a)
	}
	s.Do("PUT", "/", strings.Repeat("x", 11)).Problem(t, 413, "BODY_TOO_LARGE")
	chunked := s.NewRequest("PUT", "/", strings.Repeat("x", 11))
	chunked.ContentLength = -1
	a, err := s.Send(chunked)
	if err != nil {
		t.Fatal(err)
	}
	a.Problem(t, 413, "BODY_TOO_LARGE")
}
