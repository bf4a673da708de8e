package core_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// panel is a store whose Inspector says what a test wants.
type panel struct {
	driver.Store
	inspect func(ctx context.Context, key string) (driver.LockInfo, error)
	list    func(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error)
	force   func(ctx context.Context, key, reason string) ([]driver.Holder, error)
	forget  func(ctx context.Context, key string) (bool, error)
}

func (p *panel) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	return p.inspect(ctx, key)
}

func (p *panel) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	return p.list(ctx, q)
}

func (p *panel) ForceRelease(ctx context.Context, key, reason string, _ ...driver.Holder) ([]driver.Holder, error) {
	return p.force(ctx, key, reason)
}

func (p *panel) Forget(ctx context.Context, key string) (bool, error) { return p.forget(ctx, key) }

// answering is a panel of which each part answers the same.
func answering(answer func(context.Context) error) *panel {
	return &panel{
		Store:   memstore.New(),
		inspect: func(ctx context.Context, _ string) (driver.LockInfo, error) { return driver.LockInfo{}, answer(ctx) },
		list: func(ctx context.Context, _ driver.Listing) ([]driver.LockInfo, string, error) {
			return nil, "", answer(ctx)
		},
		force:  func(ctx context.Context, _, _ string) ([]driver.Holder, error) { return nil, answer(ctx) },
		forget: func(ctx context.Context, _ string) (bool, error) { return false, answer(ctx) },
	}
}

// listed is all keys of a list, and all errors.
func listed(seq func(func(driver.LockInfo, error) bool)) (keys []string, err error) {
	for info, e := range seq {
		if e == nil || info.Key != "" {
			keys = append(keys, info.Key)
		}
		err = errors.Join(err, e)
	}
	return keys, err
}

// calls are all that an Inspector is asked for; those in writing change something.
var (
	calls = map[string]func(context.Context, *core.Engine, string) error{
		"Inspect": func(ctx context.Context, e *core.Engine, key string) error { return errOf(e.Inspect(ctx, key)) },
		"List":    func(ctx context.Context, e *core.Engine, key string) error { return errOf(listed(e.List(ctx, key))) },
		"ListAll": func(ctx context.Context, e *core.Engine, key string) error { return errOf(listed(e.ListAll(ctx, key))) },
		"ForceRelease": func(ctx context.Context, e *core.Engine, key string) error {
			return errOf(e.ForceRelease(ctx, key, "a test"))
		},
		"Forget": func(ctx context.Context, e *core.Engine, key string) error {
			return errOf(e.Forget(ctx, key, "a test"))
		},
	}
	writing = map[string]bool{"ForceRelease": true, "Forget": true}
)

func TestInspectorErrors(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	out := func(ctx context.Context) error { <-ctx.Done(); return errDown }
	bare := newEngine(t, plain{memstore.New()}) // a store without an Inspector
	for name, tc := range map[string]struct {
		deadline, hangsUp time.Duration
		store             func(context.Context) error
		key               string // k, if not said
		closed            bool   // before, or when the call has taken a second
		want              error
		unknown           bool // for what writes: it may have been done
		took              time.Duration
	}{
		"key":    {key: "a{b", want: core.ErrInvalidKey},
		"closed": {closed: true, want: core.ErrClosed},
		// Close does not wait for a store that does not answer.
		"closed meanwhile": {closed: true, store: silent, want: core.ErrClosed, unknown: true, took: time.Second},
		"gone before":      {hangsUp: -1, want: context.Canceled},
		"hangs up":         {hangsUp: time.Second, store: silent, want: context.Canceled, unknown: true, took: time.Second},
		"own deadline":     {deadline: time.Minute, store: silent, want: context.DeadlineExceeded, unknown: true, took: time.Minute},
		"own deadline uncovers an outage": {
			deadline: time.Minute, store: out, want: core.ErrUnavailable, unknown: true, took: time.Minute,
		},
		// Too little time to say anything about the store.
		"own short deadline": {
			deadline: 20 * time.Millisecond, store: out, want: context.DeadlineExceeded, unknown: true, took: 20 * time.Millisecond,
		},
		"no deadline": {store: silent, want: core.ErrUnavailable, unknown: true, took: defaultReleaseTimeout},
		"outage":      {store: func(context.Context) error { return errDown }, want: core.ErrUnavailable, unknown: true},
		"definite":    {store: func(context.Context) error { return &driver.UnsupportedError{Feature: "this"} }, want: errors.ErrUnsupported},
	} {
		for call, do := range calls {
			wantOnly(t, do(bg, bare, "k"), errors.ErrUnsupported)
			inBubble(t, name+"/"+call, func(t *testing.T) {
				eng := newEngine(t, answering(func(ctx context.Context) error {
					if tc.store == nil {
						t.Error("the store was asked")
						return nil
					}
					return tc.store(ctx)
				}), core.WithLogger(discard))
				if tc.closed && tc.took == 0 {
					shut(t, eng)
				} else if tc.closed {
					time.AfterFunc(tc.took, func() { shut(t, eng) })
				}
				want := []error{tc.want}
				if writing[call] && tc.unknown {
					want = append(want, core.ErrOutcomeUnknown)
				}
				began := time.Now()
				wantOnly(t, do(callerFor(t, tc.deadline, tc.hangsUp), eng, cmp.Or(tc.key, "k")), want...)
				wantTook(t, began, tc.took)
			})
		}
	}
}

// paged has n keys, and repeats the last of each page in the next one. Every other page is empty.
func paged(n int) *panel {
	return &panel{Store: memstore.New(), list: func(_ context.Context, q driver.Listing) (page []driver.LockInfo, next string, err error) {
		at, _ := strconv.Atoi(q.Cursor)
		if at%200 == 100 {
			return nil, fmt.Sprint(at + 1), nil
		}
		for i := max(at-1, 0); i < min(at+q.Limit, n); i++ {
			page = append(page, driver.LockInfo{Key: fmt.Sprintf("%s%06d", q.Prefix, i)})
		}
		if at+q.Limit < n {
			next = fmt.Sprint(at + q.Limit)
		}
		return page, next, nil
	}}
}

func TestListGoesThroughAllPages(t *testing.T) {
	keys, err := listed(newEngine(t, paged(1234)).List(bg, "user:"))
	wantNil(t, err)
	distinct := len(slices.Compact(slices.Clone(keys))) == len(keys)
	// The empty pages skip a few.
	check(t, slices.IsSorted(keys) && distinct && len(keys) >= 1200 && strings.HasPrefix(keys[0], "user:"), "%d keys: %q", len(keys), keys)
}

// A list ends with the first error, with its reader, and with the engine: Close does not wait for a caller that
// reads on.
func TestListEnds(t *testing.T) {
	p := paged(1000)
	pages, list := 0, p.list
	p.list = func(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
		if pages++; q.Cursor != "" {
			return nil, "", errDown
		}
		return list(ctx, q)
	}
	eng := newEngine(t, p)
	keys, err := listed(eng.List(bg, ""))
	wantOnly(t, err, core.ErrUnavailable)
	check(t, len(keys) == 100 && pages == 2, "%d keys of %d pages", len(keys), pages)
	pages = 0
	for range eng.List(bg, "") {
		break
	}
	wantEqual(t, "pages for one key", pages, 1)
	eng = newEngine(t, paged(1000))
	n, last := 0, error(nil)
	for _, err := range eng.List(bg, "") {
		if n++; n == 10 {
			shut(t, eng)
		}
		last = err
	}
	wantOnly(t, last, core.ErrClosed)
}

func TestRecordsAreListedOnRequest(t *testing.T) {
	eng := newEngine(t, memstore.New())
	wantNil(t, errOf(eng.Once(bg, "on record", func(context.Context) ([]byte, error) { return nil, nil })))
	held := mustAcquire(t, eng, "held")
	locks, err := listed(eng.List(bg, ""))
	wantNil(t, err)
	all, err := listed(eng.ListAll(bg, ""))
	wantNil(t, err)
	slices.Sort(all)
	check(t, slices.Equal(locks, []string{"held"}) && slices.Equal(all, []string{"held", "on record"}), "List has %q, ListAll has %q", locks, all)
	mustRelease(t, held)
}
