package rule_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/store/memstore"
)

var must, check, wantIs, engine = checktest.Must, checktest.That, checktest.WantIs, ruletest.NewEngine

// unable is a store that can do nothing but exclusive claims. Nothing is acquired in it.
type unable struct{ *memstore.Store }

func (unable) Describe() driver.Description { return driver.Description{Ledger: true} }

func bind(p keytmpl.Placeholder) (rule.Source[string], error) {
	if p.Multiple() {
		return rule.Source[string]{Each: func(r string) ([]string, error) { return []string{r + "1", r + "2"}, nil }}, nil
	}
	return rule.Source[string]{One: func(r string) (string, error) { return r, nil }}, nil
}

// asked is a store that remembers what it was asked for, and grants nothing.
type asked struct {
	*memstore.Store
	claims []core.Claim
}

func (s *asked) Acquire(_ context.Context, req driver.Request) (driver.Grant, error) {
	s.claims = req.Claims
	return driver.Grant{}, &core.HeldError{Key: req.Claims[0].Key}
}

// The mode reaches every claim, whichever way the key is made, shows in reports,
// and is refused at once by a store that does not know it.
func TestModeOfTheClaims(t *testing.T) {
	function := func(r string) (string, error) { return "k/" + r, nil }
	all := func(claim func(string) core.Claim, keys ...string) (claims []core.Claim) {
		for _, k := range keys {
			claims = append(claims, claim(k))
		}
		return claims
	}
	permit := func(key string) core.Claim { return core.Permit(key, 3) }
	under := func(claim func(string) core.Claim, keys ...string) []core.Claim {
		return append([]core.Claim{core.Shared("k")}, all(claim, keys...)...)
	}
	for _, tt := range []struct {
		options   []core.CallOption
		one, each []core.Claim
		info      string
	}{
		{nil, all(core.Exclusive, "k/7"), all(core.Exclusive, "k/71", "k/72"), "serialize "},
		{[]core.CallOption{core.WithShared()}, all(core.Shared, "k/7"), all(core.Shared, "k/71", "k/72"), "serialize shared "},
		{[]core.CallOption{core.WithPermits(3)}, all(permit, "k/7"), all(permit, "k/71", "k/72"), "serialize permit of 3 "},
		{[]core.CallOption{core.WithHierarchy()}, under(core.Exclusive, "k/7"), under(core.Exclusive, "k/71", "k/72"), "serialize hierarchy "},
		{[]core.CallOption{core.WithHierarchy(), core.WithShared()}, under(core.Shared, "k/7"), under(core.Shared, "k/71", "k/72"), "serialize shared hierarchy "},
	} {
		for name, rt := range map[string]struct {
			spec rule.Spec[string]
			want []core.Claim
			key  string
		}{
			"template": {rule.Spec[string]{Template: "k/{id}"}, tt.one, "k/{id}"},
			"each":     {rule.Spec[string]{Template: "k/{id[*]}"}, tt.each, "k/{id[*]}"},
			// The values with which a rule is checked at the start must get through each filter.
			"filtered": {rule.Spec[string]{Template: "k/{id[*]|int}"}, tt.each, "k/{id[*]|int}"},
			"function": {rule.Spec[string]{Key: function}, tt.one, "func"},
		} {
			rt.spec.Name, rt.spec.Options = "n", append(tt.options, core.WithFailFast())
			store := &asked{Store: memstore.New()}
			r, err := rule.Compile(engine(t, store), rt.spec, bind)
			must(t, err)
			keys, err := r.Keys(t.Context(), "7")
			must(t, err)
			refused, _ := r.Serialize(context.Background(), keys, func(context.Context) error { return nil })
			check(t, errors.Is(refused, core.ErrHeld) && slices.Equal(store.claims, rt.want), "%s: asked for %+v, want %+v; %v", name, store.claims, rt.want, refused)
			got := r.Info().String()
			check(t, got == tt.info+rt.key, "%s: %q, want %q", name, got, tt.info+rt.key)
			_, err = rule.Compile(engine(t, unable{memstore.New()}), rt.spec, bind)
			if refused := errors.Is(err, errors.ErrUnsupported); refused != (len(tt.options) > 0 || len(rt.want) > 1) {
				t.Errorf("%s, %s: %v", name, tt.info, err)
			}
		}
	}
}

// Levels that a template can't have stop the server; those that a key function makes are an invalid key.
func TestLevelsThatCannotBe(t *testing.T) {
	eng := engine(t, memstore.New(), core.WithKeyFilter(strings.ToUpper))
	for _, template := range []string{"k//{id}", "/{id}", "{id}/", "{id}/2/3/4/5/6/7/8/9"} {
		spec := rule.Spec[string]{Name: "n", Template: template}
		if _, err := rule.Compile(eng, spec, bind); err != nil {
			t.Errorf("%s: %v, though it has no levels", template, err)
		}
		spec.Options = []core.CallOption{core.WithHierarchy()}
		wantIs(t, template, checktest.ErrorOf(rule.Compile(eng, spec, bind)), core.ErrInvalidClaim)
	}
	spec := rule.Spec[string]{Name: "n", Key: func(r string) (string, error) { return r, nil }, Options: []core.CallOption{core.WithHierarchy()}}
	r, err := rule.Compile(eng, spec, bind)
	must(t, err)
	if keys, err := r.Keys(t.Context(), "a/b"); err != nil || len(keys.All()) != 1 {
		t.Errorf("%v, %v", keys, err)
	}
	for _, key := range []string{"a//b", "a\x00b"} {
		err := checktest.ErrorOf(r.Keys(t.Context(), key))
		wantIs(t, "error", err, core.ErrInvalidKey)
		check(t, strings.Contains(err.Error(), `"A`), "%v has the key as it may not be shown", err)
	}
}

// The caller can tell a refusal from the function's own error, whatever that error matches.
func TestRefusedAndOwnErrors(t *testing.T) {
	ctx := context.Background()
	own := &core.HeldError{Key: "another lock"}
	eng := engine(t, memstore.New())
	serialize, err := rule.Compile(eng, rule.Spec[string]{Name: "s", Template: "s:{id}"}, bind)
	must(t, err)
	once, err := rule.Compile(eng, rule.Spec[string]{Name: "o", Template: "o:{id}", Once: true}, bind)
	must(t, err)
	if serialize.Engine() != eng {
		t.Error("not the rule's engine")
	}
	keys, err := serialize.Keys(t.Context(), "1")
	must(t, err)
	var twice error
	refused, said := serialize.Serialize(ctx, keys, func(ctx context.Context) error {
		_, twice, _ = once.RunOnce(ctx, keys, nil)
		return own
	})
	check(t, errors.Is(twice, core.ErrWouldDeadlock) && strings.HasSuffix(twice.Error(), "installed twice?)"), "once within it: %v", twice)
	check(t, refused == nil && said == own, "serialize: refused %v, own %v", refused, said)
	_, refused, said = once.RunOnce(ctx, keys, func(context.Context) ([]byte, error) { return nil, own })
	check(t, refused == nil && said == own, "once: refused %v, own %v", refused, said)
	for i := range 2 {
		out, refused, said := once.RunOnce(ctx, keys, func(context.Context) ([]byte, error) { return []byte("r"), nil })
		if refused != nil || said != nil || string(out.Result) != "r" || out.Duplicate != (i == 1) {
			t.Errorf("once, call %d: %+v, refused %v, own %v", i, out, refused, said)
		}
	}
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, eng, "s:1"))
	refused, said = serialize.Serialize(ctx, keys, func(context.Context) error { t.Error("ran"); return nil }, core.WithFailFast())
	check(t, errors.Is(refused, core.ErrHeld) && said == nil, "held: refused %v, own %v", refused, said)
}

// All that is wrong with a rule is said at once.
func TestCompileNamesEveryFault(t *testing.T) {
	unknown := errors.New("no such source")
	_, err := rule.Compile(nil, rule.Spec[string]{Name: "n", Template: "k:{id}:{other[*]}", Once: true, Options: []core.CallOption{core.WithTTL(-1)}},
		func(keytmpl.Placeholder) (rule.Source[string], error) { return rule.Source[string]{}, unknown })
	for _, want := range []string{`rule for "n"`, "WithTTL", "no such source", "Once needs exactly one", "an engine"} {
		check(t, err != nil && strings.Contains(err.Error(), want), "%v does not say %q", err, want)
	}
	if _, err := rule.Compile(engine(t, memstore.New()), rule.Spec[string]{Name: "n", Template: "{"}, bind); err == nil {
		t.Error("a template that does not parse")
	}
	missing := func(string) (string, error) { return "", keytmpl.ErrMissingValue }
	for _, template := range []string{"k:{id}", "k:{id}:{each[*]}"} {
		r, err := rule.Compile(engine(t, memstore.New()), rule.Spec[string]{Name: "n", Template: template},
			func(p keytmpl.Placeholder) (rule.Source[string], error) {
				if p.Multiple() {
					return bind(p)
				}
				return rule.Source[string]{One: missing}, nil
			})
		must(t, err)
		wantIs(t, template, checktest.ErrorOf(r.Keys(t.Context(), "1")), keytmpl.ErrMissingValue)
	}
}

// What a key function says is the server's fault, whatever its error matches: the engine has refused nothing. The
// exceptions are a request that makes no key, and one that has ended.
func TestErrorsOfKeyFunctions(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		own  error
		want refusal.Kind
	}{
		{ended, core.ErrHeld, refusal.Internal},
		{ended, core.ErrLeaseLost, refusal.Internal},
		{t.Context(), core.ErrUnavailable, refusal.Internal},
		{t.Context(), core.ErrFingerprintMismatch, refusal.Internal},
		{t.Context(), context.Canceled, refusal.Internal},
		{ended, context.Canceled, refusal.Canceled},
		{t.Context(), keytmpl.ErrMissingValue, refusal.KeyInvalid},
		{t.Context(), core.ErrInvalidKey, refusal.KeyInvalid},
		{t.Context(), nil, refusal.KeyInvalid}, // "" is no key
	} {
		key := func(string) (string, error) { return "", tt.own }
		r, err := rule.Compile(engine(t, memstore.New()), rule.Spec[string]{Name: "n", Key: key}, nil)
		must(t, err)
		_, err = r.Keys(tt.ctx, "1")
		got := refusal.Of(err)
		check(t, err != nil && got == tt.want && (tt.own == nil || errors.Is(err, tt.own)), "%v: %v of kind %s, want %s", tt.own, err, got.Reason(), tt.want.Reason())
	}
}

// How many keys a function returns may depend on the request. More than a set may have were an error of
// the server's, with a line in the log for each.
func TestMoreKeysThanASetMayHave(t *testing.T) {
	r, err := rule.Compile(engine(t, memstore.New()), rule.Spec[int]{Name: "many", Keys: func(n int) (keys []string, err error) {
		for i := range n {
			keys = append(keys, strconv.Itoa(i))
		}
		return keys, nil
	}}, nil)
	must(t, err)
	if _, err := r.Keys(t.Context(), driver.MaxClaims); err != nil {
		t.Errorf("%d keys: %v", driver.MaxClaims, err)
	}
	if _, err := r.Keys(t.Context(), driver.MaxClaims+1); !errors.Is(err, core.ErrInvalidKey) {
		t.Errorf("%d keys: %v, want ErrInvalidKey", driver.MaxClaims+1, err)
	}
}

// A set is partial if each of its rules is: otherwise it covers all requests.
func TestPartialSet(t *testing.T) {
	eng := engine(t, memstore.New())
	part, err := rule.Compile(eng, rule.Spec[string]{Name: "n", Template: "k/{id}", Skip: func(string) bool { return true }}, bind)
	must(t, err)
	whole, err := rule.Compile(eng, rule.Spec[string]{Name: "n", Template: "all"}, bind)
	must(t, err)
	set, err := rule.Join(part, whole)
	check(t, err == nil && part.Info().Partial && !set.Info().Partial, "the set: %+v, %v", set, err)
}

type panics struct{ *memstore.Store }

func (panics) Acquire(context.Context, driver.Request) (driver.Grant, error) { panic("boom") }

// A turn is taken in a goroutine of its own, where a panic would end the process.
func TestPanicOfATurn(t *testing.T) {
	r, err := rule.Compile(engine(t, panics{memstore.New()}), rule.Spec[string]{Name: "n", Template: "k"}, bind)
	must(t, err)
	keys, _ := r.Keys(t.Context(), "")
	defer func() {
		got := recover()
		check(t, got == "boom", "recovered %v", got)
	}()
	_, _ = r.Take(t.Context(), keys)
}

type exits struct{ *memstore.Store }

func (exits) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	runtime.Goexit()
	return driver.Grant{}, nil
}

// As t.Fatal in a hook: there was neither a turn nor an error, so a message was processed without its lease.
func TestGoexitOfATurn(t *testing.T) {
	r, err := rule.Compile(engine(t, exits{memstore.New()}), rule.Spec[string]{Name: "n", Template: "k"}, bind)
	must(t, err)
	keys, _ := r.Keys(t.Context(), "")
	turn, err := r.Take(t.Context(), keys)
	check(t, turn == nil && err != nil, "%v, %v", turn, err)
}
