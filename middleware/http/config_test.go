package lockhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
	for _, tt := range []struct {
		name  string
		eng   *core.Engine
		rules []lockhttp.Rule
		want  []string // all of them in one error
		is    error
	}{
		{name: "no engine and no rules", want: []string{"an engine"}},
		{name: "the zero rule", eng: eng, rules: []lockhttp.Rule{{}}, want: []string{"want a route", "neither a template nor a key function: want one of them"}},
		{name: "a method alone", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("PUT ", "a")}, want: []string{"want a route"}},
		{name: "no function", eng: eng, rules: []lockhttp.Rule{lockhttp.SerializeBy("*", nil), lockhttp.SerializeKeys("*", nil), lockhttp.OnceBy("/once", nil)}, want: []string{"neither a template", `route "/once"`}},
		{name: "elements of a path value", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("*", "{path.id[*]}")}, want: []string{"path has a single value"}},
		{name: "a store that takes one claim at a time", eng: plain, rules: []lockhttp.Rule{lockhttp.Serialize("*", "m:{body.m[*].id}")}, want: []string{"several claims"}, is: errors.ErrUnsupported},
		{name: "a body for the handler that the key comes from", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("*", "{form.id}").StreamBody()}, want: []string{"StreamBody(true)"}, is: core.ErrInvalidOption},
		{name: "a store without records", eng: plain, rules: []lockhttp.Rule{lockhttp.Once("*", "a")}, want: []string{"records"}, is: errors.ErrUnsupported},
		{name: "nobody says who calls", eng: eng, rules: []lockhttp.Rule{lockhttp.Idempotency("*", nil)}, want: []string{"identifies the caller"}},
		{name: "what only Once has", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("*", "a").StoredHeaders("A")}, want: []string{"Storable and StoredHeaders"}},
		{name: "what only Idempotency has", eng: eng, rules: []lockhttp.Rule{lockhttp.Once("*", "a").Optional()}, want: []string{"Header and Optional"}},
		{name: "one rule twice", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("/a", "a"), lockhttp.Serialize("/a", "a")}, want: []string{`"/a"`, "already one with the key a"}},
		{name: "two policies", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("/a", "a"), lockhttp.Serialize("/a", "b", core.WithMaxWait(time.Second))}, want: []string{`"/a"`, "options other than the mode"}},
		{name: "StreamBody of one", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("/a", "a"), lockhttp.Serialize("/a", "b").StreamBody()}, want: []string{`"/a"`, "StreamBody for all"}},
		{
			name: "all of Idempotency at once", eng: eng,
			rules: []lockhttp.Rule{lockhttp.Idempotency("post /a", nil, core.WithRetention(0), core.WithResultLimit(-1)).Header("a b").BodyLimit(-1)},
			want:  []string{"identifies the caller", "Header(a b)", "Methods(post)", "BodyLimit", "WithResultLimit", "WithRetention"},
			is:    core.ErrInvalidOption,
		},
		{
			name:  "all rules at once",
			rules: []lockhttp.Rule{lockhttp.Once("/a", "{cookie.a}", core.WithMaxWait(-1)).BodyLimit(-1), lockhttp.Once("/b", "b").StoredHeaders("a b", "Content-Length")},
			want:  []string{`route "/a"`, "want an engine", "{cookie.a}", "BodyLimit(-1)", "WithMaxWait", `route "/b"`, `"a b"`, "Content-Length"},
			is:    core.ErrInvalidOption,
		},
	} {
		locks, err := lockhttp.New(tt.eng, tt.rules...)
		if err == nil || locks != nil || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: New() = %v, want an error that is %v, and nothing else", tt.name, err, tt.is)
		}
		for _, want := range append(tt.want, "lockhttp: ") {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: error = %v, want it to say %q", tt.name, err, want)
			}
		}
	}
}

func TestOnceIsAroundOtherRules(t *testing.T) {
	ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Once("/a", "a"), lockhttp.Serialize("/a", "b", core.WithMaxWait(time.Second)))
}

func TestSkipIfAndBodyLimit(t *testing.T) {
	rule := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("*", "b:{body|hash}").BodyLimit(10).SkipIf(func(r *http.Request) bool { return r.FormValue("skip") != "" }))
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
