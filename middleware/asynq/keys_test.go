package lockasynq_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/keytmpl"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

type statusTask struct {
	UserID uint64 `json:"user_id"`
	Name   string `json:"name"`
}

func nameKey(s statusTask) string { return s.Name }

// Each source, in a task that came through a real server.
func TestKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		rule    func(pattern string) lockasynq.Rule
		payload string
		want    string
	}{
		{"payload member", template("user:{payload.user_id}"), `{"user_id":"u 1"}`, "user:u%201"},
		{"nested, and a second one", template("{payload.a.b}:{payload.c}"), `{"a":{"b":true},"c":"x"}`, "true:x"},
		{"number over 2^53", template("user:{payload.user_id}"), `{"user_id":9007199254740993}`, "user:9007199254740993"},
		{"the payload itself", template("job:{payload}"), "nightly", "job:nightly"},
		{"a digest of any payload", template("job:{payload|hash}"), "\x00\xff", "job:06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8"},
		{"type", template("{type}"), "", "im%3Atype"},
		{"queue", template("q:{queue}"), "", "q:default"},
		{"id", template("t:{id}"), "", "t:the-id"},
		{"header", template("h:{header.x-tenant}"), "", "h:acme"},
		{"header with dots", template("h:{header.trace.id}"), "", "h:7"},
		{"no placeholder", template("the only one"), "", "the only one"},
		{"key function", func(p string) lockasynq.Rule { return lockasynq.SerializeBy(p, nameKey) }, `{"name":"n"}`, "n"},
		{"key function for Once", func(p string) lockasynq.Rule { return lockasynq.OnceBy(p, nameKey) }, `{"name":"o"}`, "o"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			keys := make(chan string, 1)
			l := locks(t, engine(t, nil, core.WithHooks(seeLeases)), tt.rule("im:type"))
			q.serve(l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
				lease, ok := core.LeaseFrom(ctx)
				if !ok || lease.Token() == 0 || leaseSeen(ctx).Rule() != "im:type" {
					t.Errorf("the handler's lease is %v with token %d and rule %q", ok, lease.Token(), leaseSeen(ctx).Rule())
				}
				keys <- lease.Key()
				return nil
			})))
			q.enqueueTask(asynq.NewTaskWithHeaders("im:type", []byte(tt.payload),
				map[string]string{"x-tenant": "acme", "trace.id": "7"}), asynq.TaskID("the-id"))
			if got := receive(t, "the handler", keys); got != tt.want {
				t.Errorf("key = %q, want %q", got, tt.want)
			}
		})
	}
}

func template(template string) func(string) lockasynq.Rule {
	return func(pattern string) lockasynq.Rule { return lockasynq.Serialize(pattern, template) }
}

func TestListMakesOneClaimPerElement(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t, nil),
		lockasynq.Serialize("members", "group:{payload.group}:{payload.members[*].id}"),
		lockasynq.Serialize("list", "user:{payload[*]}"))
	for _, tt := range []struct{ typename, payload, want string }{
		{"members", `{"group":7,"members":[{"id":42},{"id":13},{"id":42}]}`, "group:7:13 group:7:42"},
		{"list", `["b","a"]`, "user:a user:b"},
	} {
		var got []string
		err := l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
			lease, _ := core.LeaseFrom(ctx)
			for _, c := range lease.Claims() {
				got = append(got, c.Key)
			}
			return nil
		})).ProcessTask(context.Background(), asynq.NewTask(tt.typename, []byte(tt.payload)))
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: claims %q, %v, want %q", tt.typename, got, err, tt.want)
		}
	}
}

// A task that can't have a key is archived, with its retries unused.
func TestTasksWithoutAKeyAreArchived(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.serve(nothingRuns(t, locks(t, engine(t, nil),
		lockasynq.Serialize("member", "user:{payload.user_id}"),
		lockasynq.Serialize("two", "{payload.user_id}:{payload.name}"),
		lockasynq.Serialize("raw", "job:{payload}"),
		lockasynq.Serialize("header", "h:{header.x}"),
		lockasynq.SerializeBy("by", nameKey),
		lockasynq.Once("once", "msg:{payload.id}"),
		lockasynq.OnceBy("onceBy", nameKey),
	)))
	tests := []struct {
		typename, payload string
		is                error
		says              string
	}{
		{"member", `{}`, keytmpl.ErrMissingValue, ""},
		{"member", `{"user_id":""}`, keytmpl.ErrMissingValue, ""},
		{"member", `{"user_id":null}`, keytmpl.ErrMissingValue, ""},
		{"member", `{"user_id":[1]}`, nil, "is a list"},
		{"member", `{"user_id":"` + strings.Repeat("x", 513) + `"}`, keytmpl.ErrTooLong, ""},
		{"member", `user_id=1`, nil, "not JSON"},
		{"member", ``, nil, "not JSON"},
		{"two", `]`, nil, "not JSON"},
		{"raw", ``, keytmpl.ErrMissingValue, ""},
		{"header", ``, keytmpl.ErrMissingValue, ""},
		{"by", `{"name":""}`, keytmpl.ErrMissingValue, ""},
		{"by", `{"name":7}`, nil, "cannot unmarshal number"},
		{"by", `{"name":"{}"}`, core.ErrInvalidKey, ""},
		{"once", `{}`, keytmpl.ErrMissingValue, ""},
		{"onceBy", `{"name":"\u0000"}`, core.ErrInvalidKey, ""},
	}
	for _, tt := range tests {
		t.Run(tt.typename+" "+tt.payload, func(t *testing.T) {
			id := q.enqueue(tt.typename, tt.payload)
			want := tt.says
			if tt.is != nil {
				want = strings.TrimPrefix(tt.is.Error(), "keyturn: ")
				if errors.Is(tt.is, core.ErrInvalidKey) {
					want = "contains"
				}
			}
			info := q.become(id, asynq.TaskStateArchived)
			if info.Retried != 0 || !strings.Contains(info.LastErr, want) || !strings.Contains(info.LastErr, `"`+tt.typename+`"`) {
				t.Errorf("archived after %d retries with %q, want 0 and an error with %q", info.Retried, info.LastErr, want)
			}
		})
	}
}

func nothingRuns(t *testing.T, l *lockasynq.Locks) asynq.Handler {
	return l.Middleware(handler(func(_ context.Context, task *asynq.Task) error {
		t.Errorf("the handler of %q ran", task.Type())
		return nil
	}))
}

func TestRejectionTellsWhy(t *testing.T) {
	t.Parallel()
	h := nothingRuns(t, locks(t, engine(t, nil),
		lockasynq.Serialize("missing", "user:{payload.user_id}"),
		lockasynq.SerializeBy("invalid", func(string) string { return "a\nb" }),
		lockasynq.Serialize("id", "{id}"),
		lockasynq.Serialize("queue", "{queue}"),
	))
	for typename, want := range map[string]error{
		"missing": keytmpl.ErrMissingValue,
		"invalid": core.ErrInvalidKey,
		"id":      keytmpl.ErrMissingValue, // not called by a server, which would know
		"queue":   keytmpl.ErrMissingValue,
	} {
		err := h.ProcessTask(context.Background(), asynq.NewTask(typename, []byte(`"x"`)))
		if typename == "missing" {
			err = h.ProcessTask(context.Background(), asynq.NewTask(typename, []byte(`{}`)))
		}
		var rejected *lockasynq.RejectedError
		if !errors.As(err, &rejected) || rejected.Pattern != typename {
			t.Fatalf("%s: error = %v, want a RejectedError of that rule", typename, err)
		}
		if !errors.Is(err, asynq.SkipRetry) || !errors.Is(err, want) {
			t.Errorf("%s: error = %v, want one that matches SkipRetry and %v", typename, err, want)
		}
	}
}

// Whatever is in a payload: either it makes a key and the handler runs under a
// valid one, or the task is rejected.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{`{"id":"a"}`, `{"id":1e400}`, `{"id":"\ud800"}`, `{"id":{}}`, "", "{", `[{"id":1}]`, `{"id":"{a:b}\n"}`} {
		f.Add([]byte(seed))
	}
	l := locks(f, engine(f, nil), lockasynq.Serialize("t", "msg:{payload.id}"), lockasynq.SerializeBy("by", nameKey))
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, typename := range []string{"t", "by"} {
			ran := false
			err := l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
				lease, ok := core.LeaseFrom(ctx)
				ran = ok && driver.ValidateKey(lease.Key()) == nil
				return nil
			})).ProcessTask(context.Background(), asynq.NewTask(typename, payload))
			if ran != (err == nil) || err != nil && !errors.Is(err, asynq.SkipRetry) {
				t.Errorf("payload %q: ran %v, error %v", payload, ran, err)
			}
		}
	})
}
