package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

type leasesOnly struct{ driver.Store }

func (leasesOnly) Describe() driver.Description { return driver.Description{} }

type group struct {
	Op struct {
		ID int `json:"id"`
	} `json:"op"`
	Members []string `json:"members,omitempty"`
	Version int      `json:"version"`
}

// TestNewRefuses what nobody could obey, and says of which rule.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const by = "{payload.version}"
	full := engine(t)
	plain, _ := core.New(leasesOnly{memstore.New()}) // nothing is acquired in it
	serialize := func(template string, opts ...core.CallOption) lockasynq.Rule {
		return lockasynq.Serialize("a", template, opts...)
	}
	key := serialize("k")
	type rules = []lockasynq.Rule
	for name, tt := range map[string]struct {
		rules rules
		is    error
		says  string
	}{
		"the zero rule":            {rules{{}}, nil, "want a task type"},
		"a blank pattern":          {rules{lockasynq.Serialize(" ", "k")}, nil, "want a task type"},
		"no key function":          {rules{lockasynq.SerializeBy[group]("a", nil)}, nil, "key function is nil"},
		"no key function for Once": {rules{lockasynq.OnceBy[group]("a", nil)}, nil, "key function is nil"},
		"none of the context's":    {rules{lockasynq.OnceKey[group]("a", nil)}, nil, "key function is nil"},
		"a policy below the first": {rules{key.OnConflict(-1)}, core.ErrInvalidOption, "Conflict(-1)"},
		"a policy beyond the last": {rules{key.OnConflict(lockasynq.Fail + 1)}, core.ErrInvalidOption, "OnConflict"},

		"an unknown source":       {rules{serialize("{body.id}")}, nil, "no such source"},
		"a header without a name": {rules{serialize("{header}")}, nil, "no such source"},
		"a part of the id":        {rules{serialize("{id.x}")}, nil, "no such source"},
		"a part of the type":      {rules{serialize("{type.x}")}, nil, "no such source"},
		"a part of the queue":     {rules{serialize("{queue.x}")}, nil, "no such source"},
		"elements of a header":    {rules{serialize("{header.x[*]}")}, nil, "has a single value"},
		"elements of the type":    {rules{serialize("{type[*]}")}, nil, "has a single value"},
		"a field of no such name": {rules{lockasynq.SerializeFor[group]("a", "{payload.op.nope}")}, nil, "has no field nope"},
		"the same of a pointer":   {rules{lockasynq.OnceFor[*group]("a", "{payload.op.nope}")}, nil, "has no field nope"},

		"a fixed delay below a second": {rules{key.RescheduleEvery(time.Second - 1)}, core.ErrInvalidOption, "RescheduleEvery"},
		"a fixed delay of a part":      {rules{key.RescheduleEvery(1500 * time.Millisecond)}, core.ErrInvalidOption, "RescheduleEvery"},
		"a fixed delay above a day":    {rules{key.RescheduleEvery(24*time.Hour + time.Second)}, core.ErrInvalidOption, "RescheduleEvery"},
		"a fixed delay with Wait":      {rules{key.RescheduleEvery(time.Second).OnConflict(lockasynq.Wait)}, core.ErrInvalidOption, "RescheduleEvery"},

		"a set with two policies": {rules{key, serialize("b").OnConflict(lockasynq.Skip)}, nil, "OnConflict"},
		"a set with two delays":   {rules{key, serialize("b").RescheduleEvery(time.Minute)}, nil, "RescheduleEvery"},
		"a set with versions":     {rules{key.KeepLatestBy(by), serialize("b")}, nil, "KeepLatestBy"},
		"unique by its own id":    {rules{serialize("{id}").UniqueUntilStarted()}, nil, "before there is"},
		"a set that is unique":    {rules{key, serialize("b").UniqueUntilStarted()}, nil, "UniqueUntilStarted"},

		"no version":               {rules{key.KeepLatestBy("")}, nil, "one placeholder"},
		"text in a version":        {rules{key.KeepLatestBy("v{payload.version}")}, nil, "one placeholder"},
		"a list of versions":       {rules{key.KeepLatestBy("{payload.v[*]}")}, nil, "one placeholder"},
		"a digest of a version":    {rules{key.KeepLatestBy("{payload.v|hash}")}, nil, "one placeholder"},
		"a version of no source":   {rules{key.KeepLatestBy("{body.version}")}, nil, "no such source"},
		"a version of no template": {rules{key.KeepLatestBy("{payload")}, nil, "template"},
		"a version of no field":    {rules{lockasynq.SerializeFor[group]("a", "k").KeepLatestBy("{payload.revision}")}, nil, "revision"},
		"no function of a version": {rules{key.KeepLatestFunc(nil)}, nil, "function"},
		"versions, unique":         {rules{key.KeepLatestBy(by).UniqueUntilStarted()}, core.ErrInvalidOption, "without KeepLatestBy"},
	} {
		l, err := lockasynq.New(full, tt.rules...)
		if err == nil || l != nil || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: New() = %v, %v, want an error alone that matches %v", name, l, err, tt.is)
			continue
		}
		wantText(t, err.Error(), "rule for", tt.says)
	}
	for _, r := range []lockasynq.Rule{lockasynq.Once("a", "k"), serialize("{payload.m[*]}"), key.KeepLatestBy(by), key.UniqueUntilStarted()} {
		wantIs(t, "a store that can only lock", checktest.ErrorOf(lockasynq.New(plain, r)), errors.ErrUnsupported)
	}
	for _, all := range []rules{nil, {key}} {
		if _, err := lockasynq.New(nil, all...); !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("no engine, rules %v: %v", all, err)
		}
	}
}

// TestRulesThatRemember: a number at the store drops or refuses tasks, so such a rule must keep its promise.
func TestRulesThatRemember(t *testing.T) {
	t.Parallel()
	skip := func(context.Context, *asynq.Task) bool { return true }
	for says, rule := range map[string]lockasynq.Rule{
		"Serialize":       lockasynq.Once("t", "k"),
		"one key":         lockasynq.Serialize("t", "k:{payload.ids[*]}"),
		"SkipIf":          lockasynq.Serialize("t", "k").SkipIf(skip),
		"exclusively":     lockasynq.Serialize("t", "k", core.WithShared()),
		"key exclusively": lockasynq.Serialize("t", "k", core.WithPermits(2)),
		"WithRunUnlocked": lockasynq.Serialize("t", "k", core.WithRunUnlocked()),
		"WithShadow":      lockasynq.Serialize("t", "k", core.WithShadow()),
		"Skip":            lockasynq.Serialize("t", "k").OnConflict(lockasynq.Skip),
	} {
		for option, r := range map[string]lockasynq.Rule{
			"KeepLatestBy": rule.KeepLatestBy("{payload.version}"), "UniqueUntilStarted": rule.UniqueUntilStarted(),
		} {
			_, err := lockasynq.New(engine(t), r)
			if !errors.Is(err, core.ErrInvalidOption) {
				t.Fatalf("%s, %s: %v", says, option, err)
			}
			wantText(t, err.Error(), `rule for "t"`, option, says)
		}
	}
}

// TestNewTakes what the pages promise.
func TestNewTakes(t *testing.T) {
	t.Parallel()
	for _, r := range []lockasynq.Rule{
		lockasynq.SerializeFor[group]("t", "g:{payload.op.id}"),
		lockasynq.SerializeFor[group]("t", "g:{payload|hash}:{type}:{header.x}"), // the bytes, whatever they are
		lockasynq.SerializeFor[group]("t", "k").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("t", "k").KeepLatestBy("{header.version}").OnConflict(lockasynq.Wait),
		lockasynq.Serialize("t", "k/l", core.WithHierarchy()).KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("t", "k").RescheduleEvery(time.Second),
		lockasynq.Once("t", "k").RescheduleEvery(24 * time.Hour),
	} {
		locks(t, engine(t), r)
	}
}

func TestNoHandler(t *testing.T) {
	t.Parallel()
	for name, middleware := range map[string]asynq.MiddlewareFunc{"Middleware": locks(t, engine(t)).Middleware, "Trace": lockasynq.Trace} {
		func() {
			defer func() {
				check(t, recover() != nil, "%s(nil) did not panic", name)
			}()
			middleware(nil)
		}()
	}
}

// FuzzPatterns: a task goes under the rule with the pattern under which asynq's own mux would find its handler.
func FuzzPatterns(f *testing.F) {
	f.Add("a", "a:b", "ab", "a:bc")
	f.Add("x", "xyz", "xy", "xyzz")
	for _, typename := range []string{"im:status", "im:status:set:now", "im:statusreport", "im:message", "im", "i", "", "IM:status", " im"} {
		f.Add("im", "im:status", "im:status:set", typename)
	}
	eng := engine(f)
	f.Fuzz(func(t *testing.T, a, b, c, typename string) {
		var rules []lockasynq.Rule
		mux, patterns := asynq.NewServeMux(), map[string]string{"none": ""} // by key
		for i, p := range []string{a, b, c} {
			if strings.TrimSpace(p) == "" || i > 0 && p == a || i > 1 && p == b {
				continue
			}
			key := fmt.Sprint("exclusive k", i)
			patterns[key] = p
			rules = append(rules, lockasynq.Serialize(p, key[len("exclusive "):]))
			mux.Handle(p, handler(succeed))
		}
		task := asynq.NewTask(typename, nil)
		_, want := mux.Handler(task)
		claims, err := claimsUnder(context.Background(), locks(t, eng, rules...), task)
		got := patterns[strings.Join(claims, " ")]
		check(t, got == want && err == nil, "of %q type %q is under the rule for %q, want %q; %v", patterns, typename, got, want, err)
	})
}
