package rule_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/store/memstore"
)

// able is a store that says it can do everything. Nothing is acquired here.
type able struct{ *memstore.Store }

func (able) Capabilities() core.Capabilities {
	return core.Capabilities{Shared: true, Permits: true, Sets: true}
}

// unable says it can do nothing but exclusive claims.
type unable struct{ *memstore.Store }

func (unable) Capabilities() core.Capabilities { return core.Capabilities{} }

func engine(t *testing.T, store core.Store) *core.Engine {
	t.Helper()
	eng, err := core.New(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return eng
}

// bind has the request itself as every placeholder's value, or list.
func bind(p keytmpl.Placeholder) (rule.Source[string], error) {
	if p.Multiple() {
		return rule.Source[string]{Each: func(r string) ([]string, error) { return []string{r + "1", r + "2"}, nil }}, nil
	}
	return rule.Source[string]{One: func(r string) (string, error) { return r, nil }}, nil
}

func TestInfo(t *testing.T) {
	key := func(r string) (string, error) { return r, nil }
	for _, tt := range []struct {
		spec rule.Spec[string]
		want string
	}{
		{rule.Spec[string]{Name: "n", Template: "user:{id}"}, "serialize user:{id}"},
		{rule.Spec[string]{Name: "n", Template: "msg:{id}", Once: true}, "once msg:{id}"},
		{rule.Spec[string]{Name: "n", Key: key, Once: true}, "once func"},
	} {
		r, err := rule.Compile(engine(t, memstore.New()), tt.spec, bind)
		if err != nil || r.Info().String() != tt.want {
			t.Errorf("%v, %v; want %s", r, err, tt.want)
		}
	}
}

// The mode reaches every claim, whichever way the key is made, and is refused
// at once by a store that does not know it.
func TestModeOfTheClaims(t *testing.T) {
	permit := func(key string) core.Claim { return core.Permit(key, 3) }
	for _, mode := range []func(string) core.Claim{nil, core.Exclusive, core.Shared, permit} {
		for name, spec := range map[string]rule.Spec[string]{
			"template": {Name: "n", Template: "k:{id}", Claim: mode},
			"each":     {Name: "n", Template: "k:{id[*]}", Claim: mode},
			"function": {Name: "n", Key: func(r string) (string, error) { return "k:" + r, nil }, Claim: mode},
		} {
			r, err := rule.Compile(engine(t, able{memstore.New()}), spec, bind)
			if err != nil {
				t.Fatal(name, err)
			}
			want := core.Exclusive
			if mode != nil {
				want = mode
			}
			claims, err := r.Claims("7")
			if err != nil || len(claims) == 0 {
				t.Fatal(name, claims, err)
			}
			for _, c := range claims {
				if c != want(c.Key) {
					t.Errorf("%s: %+v, want %+v", name, c, want(c.Key))
				}
			}
			_, err = rule.Compile(engine(t, unable{memstore.New()}), spec, bind)
			if refused := errors.Is(err, errors.ErrUnsupported); refused != (want("k").Mode != core.ModeExclusive || name == "each") {
				t.Errorf("%s, %v: %v", name, want("k").Mode, err)
			}
		}
	}
}

func TestResultLimitIsTheRulesOrTheEngines(t *testing.T) {
	spec := rule.Spec[string]{Name: "n", Template: "k", Once: true}
	for want, opts := range map[int][]core.CallOption{core.DefaultResultLimit: nil, 7: {core.WithResultLimit(7)}} {
		spec.Options = opts
		r, err := rule.Compile(engine(t, memstore.New()), spec, bind)
		if err != nil || r.ResultLimit() != want {
			t.Errorf("%v, %v; want a limit of %d", r, err, want)
		}
	}
}
