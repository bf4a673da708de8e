package lockasynq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/keytmpl"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

type status struct {
	Name string `json:"name"`
}

func nameKey(s status) string { return s.Name }

type caller struct{}

// TestKeys: each source, in a task that came through a real server.
func TestKeys(t *testing.T) {
	ctx := context.WithValue(metadata(t, asynq.TaskID("the-id")), caller{}, "ann")
	template := func(template string) lockasynq.Rule { return lockasynq.Serialize("im:", template) }
	of := func(ctx context.Context, s status) (string, error) { return ctx.Value(caller{}).(string) + s.Name, nil }
	for name, tt := range map[string]struct {
		rule    lockasynq.Rule
		payload string
		want    []string
	}{
		"payload member":           {template("user:{payload.user_id}"), `{"user_id":"u 1"}`, []string{"user:u%201"}},
		"nested, and a second one": {template("{payload.a.b}:{payload.c}"), `{"a":{"b":true},"c":"x"}`, []string{"true:x"}},
		"members of a list":        {template("g:{payload.g}:{payload.m[*].id}"), `{"g":7,"m":[{"id":42},{"id":13},{"id":42}]}`, []string{"g:7:13", "g:7:42"}},
		"the payload itself":       {template("job:{payload}"), "nightly", []string{"job:nightly"}},
		"the payload, a list":      {template("user:{payload[*]}"), `["b","a"]`, []string{"user:a", "user:b"}},
		"a digest of any payload":  {template("{payload|hash}"), "\x00\xff", []string{"06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8"}},
		"type":                     {template("{type}"), "", []string{"im%3Atype"}},
		"queue":                    {template("q:{queue}"), "", []string{"q:default"}},
		"id":                       {template("t:{id}"), "", []string{"t:the-id"}},
		"header":                   {template("h:{header.x-tenant}"), "", []string{"h:acme"}},
		"header with dots":         {template("h:{header.trace.id}"), "", []string{"h:7"}},
		"key function":             {lockasynq.SerializeBy("im:", nameKey), `{"name":"n"}`, []string{"n"}},
		"of the context, for Once": {lockasynq.OnceKey("im:", of), `{"name":"1"}`, []string{"ann1"}},
		"of the context, several": {lockasynq.SerializeKeys("im:", func(ctx context.Context, s status) ([]string, error) {
			one, err := of(ctx, s)
			return []string{"b", one}, err
		}), `{"name":"1"}`, []string{"ann1", "b"}},
	} {
		task := asynq.NewTaskWithHeaders("im:type", []byte(tt.payload), map[string]string{"x-tenant": "acme", "trace.id": "7"})
		claims, err := claimsUnder(ctx, locks(t, engine(t), tt.rule), task)
		for i := range claims {
			claims[i] = strings.TrimPrefix(claims[i], "exclusive ")
		}
		check(t, err == nil && slices.Equal(claims, tt.want), "%s: keys %q, want %q; %v", name, claims, tt.want, err)
	}
}

// TestTasksWithoutAKeyAreRejected: asynq archives them at once. TestAnswers has a server.
func TestTasksWithoutAKeyAreRejected(t *testing.T) {
	log, eng := captureLog(t), engine(t)
	tasks := []struct {
		rule    lockasynq.Rule
		payload string
		is      error
		says    string
	}{
		{lockasynq.Serialize("t", "user:{payload.id}"), `{"id":[1]}`, nil, "is a list"},
		{lockasynq.Once("t", "msg:{payload.id}"), `{"id":"` + strings.Repeat("x", 513) + `"}`, keytmpl.ErrTooLong, ""},
		{lockasynq.Serialize("t", "{payload.id}:{payload.name}"), `]`, nil, "not JSON"},
		{lockasynq.Serialize("t", "job:{payload}"), ``, keytmpl.ErrMissingValue, ""},
		{lockasynq.Serialize("t", "h:{header.x}"), ``, keytmpl.ErrMissingValue, ""},
		{lockasynq.Serialize("t", "{id}"), ``, keytmpl.ErrMissingValue, ""}, // not called by a server, which would know
		{lockasynq.Serialize("t", "{queue}"), ``, keytmpl.ErrMissingValue, ""},
		{lockasynq.SerializeBy("t", nameKey), `{"name":""}`, keytmpl.ErrMissingValue, ""},
		{lockasynq.OnceBy("t", nameKey), `{"name":7}`, nil, "cannot unmarshal number"},
		{lockasynq.OnceBy("t", nameKey), `{"name":"{}"}`, core.ErrInvalidKey, ""},
	}
	for _, tt := range tasks {
		err := process(context.Background(), nothingRuns(t, locks(t, eng, tt.rule)), "t", tt.payload)
		var rejected *lockasynq.RejectedError
		if !errors.As(err, &rejected) || rejected.Pattern != "t" || !errors.Is(err, asynq.SkipRetry) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want a RejectedError of that rule that matches SkipRetry and %v", tt.payload, err, tt.is)
			continue
		}
		wantText(t, err.Error(), `"t"`, tt.says)
	}
	n := strings.Count(log.String(), "task refused for good")
	check(t, n == len(tasks), "%d lines in the log say why:\n%s", n, log)
}

// TestSeveralRulesAreOneSet: the keys of all rules of a pattern are taken together, each in its mode, and
// a rule may skip a task.
func TestSeveralRulesAreOneSet(t *testing.T) {
	t.Parallel()
	bot := func(_ context.Context, task *asynq.Task) bool { return strings.Contains(string(task.Payload()), "bot") }
	l := locks(t, engine(t),
		lockasynq.Serialize("move", "user:{payload.user}", core.WithFailFast()).SkipIf(bot).OnConflict(lockasynq.Fail),
		lockasynq.Serialize("move", "group:{payload.group}", core.WithShared()))
	for user, want := range map[string][]string{"ann": {"shared group:7", "exclusive user:ann"}, "bot": {"shared group:7"}} {
		held, err := claimsUnder(context.Background(), l, asynq.NewTask("move", []byte(`{"user":"`+user+`","group":7}`)))
		check(t, err == nil && slices.Equal(held, want), "%s: held %q, want %q; %v", user, held, want, err)
	}
	want := "move: serialize user:{payload.user} unless skipped, serialize shared group:{payload.group}"
	all := l.Coverage("move")
	check(t, all[0].String() == want && l.Check("move") == nil, "Coverage() = %v, want %s; %v", all, want, l.Check("move"))
}

// TestSkippedTasks: a rule of Once runs a task that it skips each time, and gives it no id.
func TestSkippedTasks(t *testing.T) {
	t.Parallel()
	skip := func(context.Context, *asynq.Task) bool { return true }
	l := locks(t, engine(t), lockasynq.Once("mail", "mail:{payload.id}").SkipIf(skip))
	ran := 0
	h := l.Middleware(handler(func(context.Context, *asynq.Task) error { ran++; return nil }))
	for want := 1; want <= 2; want++ {
		if err := process(t.Context(), h, "mail", `{"id":1}`); err != nil || ran != want {
			t.Errorf("ran %d times, want %d; %v", ran, want, err)
		}
	}
	if id, err := l.TaskID(t.Context(), asynq.NewTask("mail", []byte(`{"id":1}`))); err == nil {
		t.Errorf("TaskID() = %v, want an error", id)
	}
}

// FuzzPayload: whatever is in a payload, either it makes a key and the handler runs under a
// valid one, or the task is rejected.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{`{"id":"a"}`, `{"id":1e400}`, `{"id":"\ud800"}`, `{"id":{}}`, "", "{", `[{"id":1}]`, `{"id":"{a:b}\n"}`} {
		f.Add([]byte(seed))
	}
	l := locks(f, engine(f), lockasynq.Serialize("t", "msg:{payload.id}"), lockasynq.SerializeBy("by", nameKey))
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, typename := range []string{"t", "by"} {
			ran := false
			err := process(context.Background(), l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
				lease, ok := core.LeaseFrom(ctx)
				ran = ok && driver.ValidateKey(lease.Key()) == nil
				return nil
			})), typename, string(payload))
			if ran != (err == nil) || err != nil && !errors.Is(err, asynq.SkipRetry) {
				t.Errorf("payload %q: ran %v, error %v", payload, ran, err)
			}
		}
	})
}
