package core_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// book is an executor whose transactions are copies of a map. The functions count their effects
// under the key of theirs.
type book struct {
	records map[string]driver.Record
	effects map[string]int
	now     map[string]int // of the transaction
	err     error          // of the next commit
	wrong   error
}

func newBook() *book {
	return &book{records: make(map[string]driver.Record), effects: make(map[string]int)}
}

func (b *book) Validate() error { return b.wrong }

func (b *book) Execute(ctx context.Context, key string, fn func(context.Context) (driver.Record, error)) (driver.Record, bool, error) {
	if rec, ok := b.records[key]; ok {
		return rec, false, nil
	}
	b.now = maps.Clone(b.effects)
	rec, err := fn(ctx)
	if err == nil {
		err, b.err = b.err, nil
	}
	if err != nil {
		return driver.Record{}, true, err
	}
	b.records[key], b.effects = rec, b.now
	return rec, true, nil
}

// once executes k, whose function has an effect in b and then returns what fails.
func (b *book) once(eng *core.Engine, fails error, opts ...core.CallOption) (core.Outcome, error) {
	return eng.Once(bg, "k", func(context.Context) ([]byte, error) {
		b.now["k"]++
		return []byte("result"), fails
	}, append(opts, core.WithExecutor(b))...)
}

// The executor has the records, so the store need not be able to, or may lose them. If the store can't note the
// execution, it counts all the same, and the caller does not wait. Without a store, what runs unlocked still has one effect.
func TestExecutorHasTheLastWord(t *testing.T) {
	fails := func(err error) func(*spy) {
		return func(s *spy) { s.onRecord = func(context.Context, driver.Grant) error { return err } }
	}
	for name, prepare := range map[string]func(*spy){
		"records": func(*spy) {}, "no records": nil, "record unanswered": fails(errDown), "record refused": fails(core.ErrLeaseLost),
		"silent": func(s *spy) {
			s.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		},
	} {
		try := func(t *testing.T, moves bool) {
			b, content := newBook(), core.WithFingerprint([]byte("content"))
			spy := newSpy()
			var store driver.Store = plain{spy}
			if prepare != nil {
				prepare(spy)
				store = spy
			}
			eng, began := newEngine(t, store, core.WithRunUnlocked()), time.Now()
			caller := eng
			if moves {
				caller = newEngine(t, memstore.New(), core.WithMoveFrom(eng), core.WithRunUnlocked())
			}
			for i, eng := range []*core.Engine{caller, caller, newEngine(t, memstore.New())} { // the last one's store has lost its data
				out, err := b.once(eng, nil, content)
				check(t, err == nil && string(out.Result) == "result" && out.Duplicate == (i > 0), "%d: %+v, %v", i, out, err)
				check(t, i > 0 || name == "silent" || time.Since(began) < 10*time.Millisecond, "waited for the store")
			}
			wantOnly(t, errOf(b.once(newEngine(t, memstore.New()), nil, core.WithFingerprint([]byte("other")))), core.ErrFingerprintMismatch)
			wantEqual(t, "effects", b.effects["k"], 1)
			synctest.Wait()
			if name == "record unanswered" {
				isFree(t, eng, "k")
			}
		}
		inBubble(t, name, func(t *testing.T) { try(t, false) })
		inBubble(t, name+", the old store of a move", func(t *testing.T) { try(t, true) })
	}
}

func TestExecutorWhoseWorkFails(t *testing.T) {
	b, eng := newBook(), newEngine(t, memstore.New())
	wantEqual(t, "the very error", errOf(b.once(eng, errHandler)), errHandler)
	b.err = core.ErrRolledBack
	wantOnly(t, errOf(b.once(eng, nil)), core.ErrRolledBack)
	isFree(t, eng, "k")
	out, err := b.once(eng, nil)
	check(t, err == nil && !out.Duplicate && b.effects["k"] == 1, "%+v, %v, %d effects", out, err, b.effects["k"])
}

func TestExecutorIsForOnceOnly(t *testing.T) {
	eng := newEngine(t, memstore.New())
	option := core.WithExecutor(newBook())
	spy, old := newSpied(t)
	for _, with := range []core.CallOption{core.WithRule(""), core.WithShadow(), core.WithMoveFrom(old)} {
		wantOnly(t, eng.Do(bg, "k", func(context.Context) error { t.Error("it ran"); return nil }, option, with), core.ErrInvalidOption)
	}
	wantEqual(t, "requests before the refusal", spy.requests(), 0)
	wantOnly(t, errOf(eng.AdvanceVersion(bg, "k", 1, option)), core.ErrInvalidOption)
	for once, want := range map[bool]error{false: core.ErrInvalidOption, true: nil} {
		rule := author.Rule{Policy: policy(t, option), About: coverage.Rule{Once: once}, Like: []string{"k"}}
		wantIs(t, "Declare", errOf(author.Declare(eng, rule)), want)
	}
	wantOnly(t, errOf(core.NewPolicy(core.WithExecutor(nil))), core.ErrInvalidOption)
	wrong := newBook()
	wrong.wrong = &core.OptionError{Option: "book", Want: "another"}
	wantOnly(t, errOf(core.NewPolicy(core.WithExecutor(wrong))), core.ErrInvalidOption)
}

// endure is an executor whose context ends before or after the function.
type endure struct {
	before  bool // the function does not run
	unknown bool // it may have committed
	end     func(context.Context)
}

func (endure) Validate() error { return nil }

func (x endure) Execute(ctx context.Context, key string, fn func(context.Context) (driver.Record, error)) (driver.Record, bool, error) {
	if !x.before {
		if _, err := fn(ctx); err != nil {
			return driver.Record{}, true, err
		}
	}
	x.end(ctx)
	<-ctx.Done()
	err := fmt.Errorf("mark %q: %w", key, ctx.Err())
	if x.unknown {
		err = errors.Join(core.ErrOutcomeUnknown, err)
	}
	return driver.Record{}, false, err
}

// An executor knows only that its context has ended. The caller learns why, and not more than
// what has happened: ErrLeaseLost says that the function ran.
func TestExecutorWhoseContextEnds(t *testing.T) {
	const lost, released, cancelled = "lost", "released", "cancelled"
	for _, c := range []struct {
		end             string
		before, unknown bool
		says            bool // the function is cut off, and returns that
		want            []error
	}{
		{lost, true, false, false, []error{core.ErrRolledBack}},
		{lost, false, false, false, []error{core.ErrLeaseLost}},
		{lost, false, true, false, []error{core.ErrOutcomeUnknown}},
		{lost, false, false, true, []error{core.ErrLeaseLost, context.Canceled}},
		{released, false, false, false, []error{core.ErrReleased}},
		{released, false, true, false, []error{core.ErrOutcomeUnknown}},
		{cancelled, true, false, false, []error{context.Canceled}},
		{cancelled, false, false, false, []error{context.Canceled}},
		{cancelled, false, true, false, []error{context.Canceled, core.ErrOutcomeUnknown}},
		{cancelled, false, false, true, []error{context.Canceled}},
	} {
		inBubble(t, fmt.Sprint(c), func(t *testing.T) {
			spy, eng := newSpied(t)
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			end := func(ctx context.Context) {
				switch l, _ := core.LeaseFrom(ctx); c.end {
				case lost:
					breakLock(t, spy, l)
				case released:
					mustRelease(t, l)
				default:
					cancel()
				}
			}
			ran := false
			out, err := eng.Once(ctx, "k", func(ctx context.Context) ([]byte, error) {
				ran = true
				if c.says {
					end(ctx)
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []byte("result"), nil
			}, core.WithExecutor(endure{c.before, c.unknown, end}))
			wantOnly(t, err, c.want...)
			check(t, out.Result == nil && ran != c.before, "%+v, ran: %v", out, ran)
			isFree(t, eng, "k")
		})
	}
}
