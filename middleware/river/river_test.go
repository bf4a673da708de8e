package lockriver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river/rivertype"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/middleware/reasons"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, check, wantNil, wantIs = checktest.Must, checktest.That, checktest.WantNil, checktest.WantIs

func locks(t testing.TB, eng *core.Engine, rules ...lockriver.Rule) *lockriver.Locks {
	t.Helper()
	l, err := lockriver.New(eng, rules...)
	must(t, err)
	return l
}

func job(kind, args string) *rivertype.JobRow {
	return &rivertype.JobRow{ID: 7, Kind: kind, Queue: "default", EncodedArgs: []byte(args)}
}

func nothing(context.Context) error { return nil }

// TestAnswers to River: what is snoozed, cancelled, completed and retried.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t, core.WithLogger(slog.New(slog.DiscardHandler)))
		l := locks(t, kit.Engine, lockriver.Serialize("one", "user:{args.id}"), lockriver.Once("once", "msg:{args.id}"))
		work := func(kind, args string, fn func(context.Context) error) error {
			return l.Work(context.Background(), job(kind, args), fn)
		}
		snoozed := func(what string, err error, least time.Duration) {
			t.Helper()
			var s *rivertype.JobSnoozeError
			check(t, errors.As(err, &s) && s.Duration >= least, "%s: %v", what, err)
		}
		cancelled := func(what string, err error) {
			t.Helper()
			c := (*rivertype.JobCancelError)(nil)
			check(t, errors.As(err, &c), "%s: %v", what, err)
		}
		own := errors.New("own")
		if err := work("one", `{"id":1}`, func(context.Context) error { return own }); err != own {
			t.Error(err)
		}
		peer := kit.Peer(t).Engine
		lease, err := peer.Acquire(context.Background(), "user:1")
		must(t, err)
		began := time.Now()
		snoozed("held", work("one", `{"id":1}`, nothing), time.Second)
		check(t, time.Since(began) == lockriver.DefaultMaxWait, "it waited %v", time.Since(began))
		wantNil(t, lease.Release(context.Background()))
		cancelled("no key", work("one", `{}`, nothing))
		cancelled("no JSON", work("one", `x`, nothing))
		err = work("one", `{"id":1}`, func(ctx context.Context) error {
			kit.Store.Lose("user:1")
			<-ctx.Done()
			return own
		})
		check(t, errors.Is(err, core.ErrLeaseLost) && errors.Is(err, own), "lost: %v", err)
		runs := 0
		for range 3 {
			wantNil(t, work("once", `{"id":1}`, func(context.Context) error { runs++; return nil }))
		}
		cancelled("other arguments", work("once", `{"id":1,"text":"x"}`, nothing))
		check(t, runs == 1, "%d runs", runs)
		stopped, stop := context.WithCancel(context.Background())
		stop()
		snoozed("River stops", l.Work(stopped, job("one", `{"id":1}`), nothing), 0)
		late, cancel := context.WithTimeout(context.Background(), 0)
		defer cancel()
		err = l.Work(late, job("one", `{"id":1}`), nothing)
		check(t, errors.Is(err, context.DeadlineExceeded), "its own time is over: %v", err)
		kit.Store.Refuse()
		snoozed("outage", work("one", `{"id":1}`, nothing), 5*time.Second)
		kit.Store.Heal()
	})
}

func TestErrorHandler(t *testing.T) {
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	kit := locktest.New(t)
	l := locks(t, kit.Engine, lockriver.Serialize("t", "k:{args.id}", core.WithFailFast())).WithErrorHandler(func(_ context.Context, _ *rivertype.JobRow, refused *reasons.Refusal) error {
		told = refused
		return busy
	})
	run := func() error {
		return l.Work(context.Background(), job("t", `{"id":1}`), func(context.Context) error { return own })
	}
	if err := run(); err != own || told != nil {
		t.Errorf("the worker's own error: %v, %+v", err, told)
	}
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, kit.Engine, "k:1"))
	var snooze *rivertype.JobSnoozeError
	if err := run(); err != busy || told.Reason != reasons.LockHeld || told.Rule != "t" || told.Key != "k:1" || !errors.As(told.Answer, &snooze) || snooze.Duration != time.Second {
		t.Errorf("refused: %v, %+v", err, told)
	}
}

// TestAnswersToKeyFunctions: what a repeat can't mend cancels the job, and a database that is away does not.
func TestAnswersToKeyFunctions(t *testing.T) {
	away := errors.New("no database")
	for name, tt := range map[string]struct {
		args   string
		err    error
		reason string
		cancel bool
	}{
		"arguments of another type": {`[]`, nil, reasons.KeyInvalid, true},
		"at fault":                  {`{}`, fmt.Errorf("%w: no group", core.ErrInvalidKey), reasons.KeyInvalid, true},
		"away":                      {`{}`, away, reasons.Internal, false},
	} {
		var told *reasons.Refusal
		l := locks(t, locktest.New(t).Engine, lockriver.SerializeKeys("k", func(context.Context, map[string]any) ([]string, error) {
			return nil, tt.err
		})).WithErrorHandler(func(_ context.Context, _ *rivertype.JobRow, refused *reasons.Refusal) error {
			told = refused
			return refused.Answer
		})
		err := l.Work(context.Background(), job("k", tt.args), nothing)
		if c := (*rivertype.JobCancelError)(nil); err == nil || errors.As(err, &c) != tt.cancel || tt.err != nil && !errors.Is(err, tt.err) {
			t.Errorf("%s: the answer is %v", name, err)
		}
		check(t, told != nil && told.Reason == tt.reason, "%s: told %+v", name, told)
	}
}

func TestCoverage(t *testing.T) {
	l := locks(t, locktest.New(t).Engine, lockriver.Serialize("b", "user:{args.id}"), lockriver.Once("a", "msg:{id}"))
	if got := fmt.Sprint(l.Coverage("c", "b")); got != "[c: none b: serialize user:{args.id}]" {
		t.Errorf("of the kinds: %s", got)
	}
	if got := fmt.Sprint(l.Coverage()); got != "[a: once msg:{id} b: serialize user:{args.id}]" {
		t.Errorf("of the rules: %s", got)
	}
	wantNil(t, l.Check("a", "b", "c"))
	if err := l.Check("c", "b"); err == nil || !strings.Contains(err.Error(), `rule for "a"`) {
		t.Errorf("a rule for nothing: %v", err)
	}
}

func TestWrongRules(t *testing.T) {
	eng := locktest.New(t).Engine
	for want, rules := range map[string][]lockriver.Rule{
		"a kind":         {{}},
		"alone":          {lockriver.Serialize("k", "a"), lockriver.Once("k", "b")},
		"no such source": {lockriver.Serialize("k", "{payload.id}")},
		"WithTTL":        {lockriver.Serialize("k", "a", core.WithTTL(0))},
		"[*]":            {lockriver.Once("k", "{args.ids[*]}")},
		"key function":   {lockriver.SerializeBy[string]("k", nil)},
	} {
		_, err := lockriver.New(eng, rules...)
		check(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
	}
	wantIs(t, "error", checktest.ErrorOf(lockriver.New(nil)), core.ErrInvalidOption)
}
