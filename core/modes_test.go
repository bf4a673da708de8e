package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestUnder(t *testing.T) {
	want := []core.Claim{core.Shared("group:7"), core.Shared("group:7/member:42"), core.Exclusive("group:7/member:42/role")}
	for _, path := range [][]string{
		{"group:7", "member:42", "role"},
		{"group:7/member:42", "role"},
		{"group:7/member:42/role"},
	} {
		if got := core.Under(path...); !slices.Equal(got, want) {
			t.Errorf("Under(%q) = %+v", path, got)
		}
	}
	if got := core.Under("group:7"); !slices.Equal(got, []core.Claim{core.Exclusive("group:7")}) {
		t.Errorf("one level: %+v", got)
	}
	l := acquireAll(t, newEngine(t, newSpy()), core.Under("a", "b", "c", "d", "e", "f", "g", "h")...)
	wantEqual(t, "claims of eight levels", len(l.Claims()), 8)
	mustRelease(t, l)
}

func TestLevelsThatCannotBe(t *testing.T) {
	spy, eng := newSpied(t)
	for name, tc := range map[string]struct {
		path []string
		want error
		says string
	}{
		"nine levels":           {[]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, core.ErrInvalidClaim, "more than 8 levels"},
		"an empty segment":      {[]string{"a", "", "b"}, core.ErrInvalidClaim, "empty level"},
		"an empty last one":     {[]string{"a", ""}, core.ErrInvalidClaim, "empty level"},
		"an empty first one":    {[]string{"", "a"}, core.ErrInvalidClaim, "empty level"},
		"a doubled separator":   {[]string{"a//b"}, core.ErrInvalidClaim, "empty level"},
		"nothing":               {nil, core.ErrInvalidKey, "is empty"},
		"a brace in some level": {[]string{"a{", "b"}, core.ErrInvalidKey, "brace"},
		"too long":              {[]string{strings.Repeat("a", 300), strings.Repeat("b", 300)}, core.ErrInvalidKey, "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := eng.AcquireAll(bg, core.Under(tc.path...))
			wantOnly(t, err, tc.want)
			_, byOption := eng.Acquire(bg, strings.Join(tc.path, "/"), core.WithHierarchy())
			wantOnly(t, byOption, tc.want)
			check(t, strings.Contains(err.Error(), tc.says) && strings.Contains(byOption.Error(), tc.says), "%v, %v: want %q", err, byOption, tc.says)
		})
	}
	check(t, spy.mostAtOne == 0, "the store was asked all the same")
}

// Options say the mode of plain keys; claims that say one themselves keep it.
func TestModesByOption(t *testing.T) {
	shared, permits, hierarchy := core.WithShared(), core.WithPermits(5), core.WithHierarchy()
	a, b := "g:1/m:1", "g:1/m:2"
	for name, tc := range map[string]struct {
		opts   []core.CallOption
		claims []core.Claim // nil: the plain key a
		want   []core.Claim
	}{
		"none":              {nil, nil, []core.Claim{core.Exclusive(a)}},
		"shared":            {[]core.CallOption{shared}, nil, []core.Claim{core.Shared(a)}},
		"permits":           {[]core.CallOption{permits}, nil, []core.Claim{core.Permit(a, 5)}},
		"shared after all":  {[]core.CallOption{policy(t, permits), shared}, nil, []core.Claim{core.Shared(a)}},
		"permits after all": {[]core.CallOption{policy(t, shared), permits}, nil, []core.Claim{core.Permit(a, 5)}},
		"levels":            {[]core.CallOption{hierarchy}, nil, core.Under(a)},
		"levels, shared":    {[]core.CallOption{hierarchy, shared}, nil, []core.Claim{core.Shared("g:1"), core.Shared(a)}},
		"levels, permits":   {[]core.CallOption{permits, hierarchy}, nil, []core.Claim{core.Shared("g:1"), core.Permit(a, 5)}},
		"a set":             {[]core.CallOption{shared}, exclusive("x", "y"), []core.Claim{core.Shared("x"), core.Shared("y")}},
		"a set with modes": {
			[]core.CallOption{shared},
			[]core.Claim{core.Permit("p", 2), core.Exclusive("x"), core.Shared("y")},
			[]core.Claim{core.Permit("p", 2), core.Shared("x"), core.Shared("y")},
		},
		"a common level":          {[]core.CallOption{hierarchy}, exclusive(a, b), []core.Claim{core.Shared("g:1"), core.Exclusive(a), core.Exclusive(b)}},
		"a level that is a key":   {[]core.CallOption{hierarchy}, exclusive(a, "g:1"), []core.Claim{core.Exclusive("g:1"), core.Exclusive(a)}},
		"the same, first":         {[]core.CallOption{hierarchy}, exclusive("g:1", a), []core.Claim{core.Exclusive("g:1"), core.Exclusive(a)}},
		"a level that is counted": {[]core.CallOption{hierarchy}, []core.Claim{core.Permit("g:1", 3), core.Exclusive(a)}, []core.Claim{core.Exclusive("g:1"), core.Exclusive(a)}},
		"a key twice":             {[]core.CallOption{hierarchy}, exclusive(a, a), core.Under(a)},
	} {
		t.Run(name, func(t *testing.T) {
			spy, eng := newSpied(t)
			var leases []*core.Lease
			note := func(l *core.Lease, err error) {
				must(t, err)
				leases = append(leases, l)
				mustRelease(t, l)
			}
			if given := slices.Clone(tc.claims); given != nil {
				note(eng.AcquireAll(bg, tc.claims, tc.opts...))
				check(t, slices.Equal(given, tc.claims), "the caller's slice is %v now", tc.claims)
			} else {
				note(eng.Acquire(bg, a, tc.opts...))
				note(eng.TryAcquire(bg, a, tc.opts...))
				note(eng.Acquire(bg, a, policy(t, tc.opts...)))
			}
			for i, l := range leases {
				check(t, slices.Equal(spy.asked[i].Claims, tc.want) && slices.Equal(l.Claims(), tc.want), "asked for %+v, granted %+v, want %+v", spy.asked[i].Claims, l.Claims(), tc.want)
			}
		})
	}
}

func TestModesOutOfPlace(t *testing.T) {
	spy := newSpy()
	eng := newEngine(t, plain{spy})
	for _, n := range []int{0, -1} {
		wantOnly(t, errOf(eng.Acquire(bg, "k", core.WithPermits(n))), core.ErrInvalidOption)
	}
	for name, o := range map[string]core.CallOption{
		"WithShared": core.WithShared(), "WithPermits": core.WithPermits(2), "WithHierarchy": core.WithHierarchy(),
	} {
		wantOnly(t, errOf(eng.Acquire(bg, "k/l", o)), errors.ErrUnsupported)
		once := newEngine(t, spy)
		err := errOf(once.Once(bg, "k", neverRuns, o))
		wantOnly(t, err, core.ErrInvalidOption)
		check(t, strings.Contains(err.Error(), name), "%v does not name %s", err, name)
		wantOnly(t, declared(once, policy(t, o), coverage.Rule{Once: true}, "k/l"), core.ErrInvalidOption)
		wantOnly(t, declared(eng, policy(t, o), coverage.Rule{}, "k/l"), errors.ErrUnsupported)
	}
	check(t, spy.mostAtOne == 0, "the store was asked all the same")
}

func TestAssertHeld(t *testing.T) {
	spy, eng := newSpied(t)
	wantOnly(t, core.AssertHeld(bg, core.Exclusive("a")), core.ErrNotHeld)
	var kept context.Context
	err := eng.Do(bg, "a", func(ctx context.Context) error {
		return eng.Do(ctx, "b", func(ctx context.Context) error {
			kept = ctx
			for _, key := range []string{"a", "b"} { // the inner one, and the one around it
				if err := core.AssertHeld(ctx, core.Exclusive(key)); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
			wantOnly(t, core.AssertHeld(ctx, core.Exclusive("c")), core.ErrNotHeld)
			return nil
		})
	})
	must(t, err)
	// A goroutine that outlives its handler.
	wantOnly(t, core.AssertHeld(context.WithoutCancel(kept), core.Exclusive("a")), core.ErrReleased)

	l := mustAcquire(t, eng, "a", core.WithoutCancelOnLoss())
	breakLock(t, spy, l)
	_ = l.Release(bg)
	wantOnly(t, core.AssertHeld(l.Context(), core.Exclusive("a")), core.ErrLeaseLost)

	// Held again further in: the outer loss does not matter.
	again := acquireIn(t, context.WithoutCancel(l.Context()), eng, "a")
	wantNil(t, core.AssertHeld(again.Context(), core.Exclusive("a")))
	mustRelease(t, again)

	// A lease counts as what it is now.
	l = mustAcquire(t, eng, "a")
	inner := acquireIn(t, l.Context(), eng, "a", core.WithShared())
	wantNil(t, core.AssertHeld(inner.Context(), core.Exclusive("a")))
	must(t, l.Downgrade(bg))
	for _, l := range []*core.Lease{inner, l} {
		wantOnly(t, core.AssertHeld(l.Context(), core.Exclusive("a")), core.ErrNotHeld)
		wantNil(t, core.AssertHeld(l.Context(), core.Shared("a")))
		mustRelease(t, l)
	}
	wantOnly(t, core.AssertHeld(context.WithoutCancel(l.Context()), core.Exclusive("a")), core.ErrNotHeld)
}

func ExampleAssertHeld() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)
	rename := func(ctx context.Context) error {
		// This must not run next to readers.
		if err := core.AssertHeld(ctx, core.Exclusive("group:7")); err != nil {
			return err
		}
		return nil // ... and here it writes
	}
	fmt.Println(eng.Do(ctx, "group:7", rename))
	fmt.Println(eng.Do(ctx, "group:7", rename, core.WithShared()))
	// Output:
	// <nil>
	// keyturn: not held: "group:7" is held shared only
}
