package lockriver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river/rivertype"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/shadowtest"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/middleware/reasons"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func locks(t testing.TB, eng *core.Engine, rules ...lockriver.Rule) *lockriver.Locks {
	t.Helper()
	l, err := lockriver.New(eng, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func job(kind, args string) *rivertype.JobRow {
	return &rivertype.JobRow{ID: 7, Kind: kind, Queue: "default", EncodedArgs: []byte(args)}
}

func nothing(context.Context) error { return nil }

func TestKeys(t *testing.T) {
	for template, want := range map[string][]string{
		"user:{args.user.id}":         {"user:42"},
		"member:{args.members[*].id}": {"member:1", "member:2"},
		"{kind}:{queue}:{id}":         {"k:default:7"},
		"args:{args|hash}":            nil,
	} {
		kit := locktest.New(t)
		l := locks(t, kit.Engine, lockriver.Serialize("k", template))
		err := l.Work(context.Background(), job("k", `{"user":{"id":42},"members":[{"id":1},{"id":2}]}`), func(ctx context.Context) error {
			if lease, ok := core.LeaseFrom(ctx); !ok {
				t.Error("no lease")
			} else if want != nil {
				if keys := driver.Keys(lease.Claims()); !slices.Equal(keys, want) {
					t.Errorf("%s: keys %q", template, keys)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", template, err)
		}
		if err := l.Work(context.Background(), job("other", ""), nothing); err != nil {
			t.Error(err)
		}
	}
}

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
			if !errors.As(err, &s) || s.Duration < least {
				t.Errorf("%s: %v", what, err)
			}
		}
		cancelled := func(what string, err error) {
			t.Helper()
			if c := (*rivertype.JobCancelError)(nil); !errors.As(err, &c) {
				t.Errorf("%s: %v", what, err)
			}
		}
		own := errors.New("own")
		if err := work("one", `{"id":1}`, func(context.Context) error { return own }); err != own {
			t.Error(err)
		}
		peer := kit.Peer(t).Engine
		lease, err := peer.Acquire(context.Background(), "user:1")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		snoozed("held", work("one", `{"id":1}`, nothing), time.Second)
		if time.Since(began) != lockriver.DefaultMaxWait {
			t.Errorf("it waited %v", time.Since(began))
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
		cancelled("no key", work("one", `{}`, nothing))
		cancelled("no JSON", work("one", `x`, nothing))
		err = work("one", `{"id":1}`, func(ctx context.Context) error {
			kit.Store.Lose("user:1")
			<-ctx.Done()
			return own
		})
		if !errors.Is(err, core.ErrLeaseLost) || !errors.Is(err, own) {
			t.Errorf("lost: %v", err)
		}
		runs := 0
		for range 3 {
			if err := work("once", `{"id":1}`, func(context.Context) error { runs++; return nil }); err != nil {
				t.Error(err)
			}
		}
		cancelled("other arguments", work("once", `{"id":1,"text":"x"}`, nothing))
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
		stopped, stop := context.WithCancel(context.Background())
		stop()
		snoozed("River stops", l.Work(stopped, job("one", `{"id":1}`), nothing), 0)
		kit.Store.Refuse()
		snoozed("outage", work("one", `{"id":1}`, nothing), 5*time.Second)
		kit.Store.Heal()
	})
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
		t.Run(name, func(t *testing.T) {
			l := locks(t, locktest.New(t).Engine, lockriver.SerializeKeys("k", func(context.Context, map[string]any) ([]string, error) {
				return nil, tt.err
			}))
			var told *reasons.Refusal
			l = l.WithErrorHandler(func(_ context.Context, _ *rivertype.JobRow, refused *reasons.Refusal) error {
				told = refused
				return refused.Answer
			})
			err := l.Work(context.Background(), job("k", tt.args), nothing)
			if c := (*rivertype.JobCancelError)(nil); err == nil || errors.As(err, &c) != tt.cancel {
				t.Errorf("the answer is %v", err)
			}
			if told == nil || told.Reason != tt.reason || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("told %+v, %v", told, err)
			}
		})
	}
}

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		rule := lockriver.Serialize
		if once {
			rule = lockriver.Once
		}
		l := locks(t, eng, rule("k", "user:{args.id}", opts...))
		return func(id string) error {
			return l.Work(context.Background(), job("k", `{"id":"`+id+`"}`), handler)
		}
	})
}

// TestKeyFunctions take the arguments as the worker gets them.
func TestKeyFunctions(t *testing.T) {
	type args struct {
		From, To int
	}
	pair := func(a args) string {
		if a.From == 0 {
			return ""
		}
		return fmt.Sprintf("transfer:%d:%d", min(a.From, a.To), max(a.From, a.To))
	}
	kit := locktest.New(t)
	l := locks(t, kit.Engine, lockriver.SerializeBy("move", pair), lockriver.OnceBy("book", pair))
	for _, kind := range []string{"move", "book"} {
		held := ""
		err := l.Work(context.Background(), job(kind, `{"from":9,"to":7}`), func(ctx context.Context) error {
			if lease, ok := core.LeaseFrom(ctx); ok {
				held = lease.Key()
			}
			return nil
		})
		if err != nil || held != "transfer:7:9" {
			t.Errorf("%s ran under %q, %v", kind, held, err)
		}
		for _, bad := range []string{`{"from":"nine"}`, `{}`} {
			var cancelled *rivertype.JobCancelError
			if err := l.Work(context.Background(), job(kind, bad), nothing); !errors.As(err, &cancelled) {
				t.Errorf("%s of %s: %v", kind, bad, err)
			}
		}
	}
}

func TestCoverage(t *testing.T) {
	l := locks(t, locktest.New(t).Engine, lockriver.Serialize("b", "user:{args.id}"), lockriver.Once("a", "msg:{id}"))
	text := func(all []coverage.Target) string {
		var lines []string
		for _, target := range all {
			line := target.Name
			for _, r := range target.Rules {
				line += " " + r.Key
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, ", ")
	}
	if got := text(l.Coverage("c", "b")); got != "c, b user:{args.id}" {
		t.Errorf("of the kinds: %s", got)
	}
	if got := text(l.Coverage()); got != "a msg:{id}, b user:{args.id}" {
		t.Errorf("of the rules: %s", got)
	}
	if err := l.Check("a", "b", "c"); err != nil {
		t.Error(err)
	}
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
		if _, err := lockriver.New(eng, rules...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := lockriver.New(nil); !errors.Is(err, core.ErrInvalidOption) {
		t.Error(err)
	}
}
