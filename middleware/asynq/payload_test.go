package lockasynq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

type group struct {
	Op struct {
		ID int `json:"id"`
	} `json:"op"`
	Members []string       `json:"members,omitempty"`
	Extra   map[string]any `json:"extra"`
	Note    string         `json:"-"`
}

func TestTemplatesAreCheckedAgainstThePayloadsType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template, says string
	}{
		{"group:{payload.op.id}", ""},
		{"group:{payload.extra.any.thing}", ""},
		{"group:{payload}", ""}, // the bytes, whatever they are
		{"group:{payload|hash}:{type}:{header.x}", ""},
		{"group:{payload.Note}", "has no field Note"},
		{"group:{payload.op.Id}", "has no field Id: want id"},
		{"group:{payload.op}", "op is an object"},
		{"group:{payload.members}", "want members[*]"},
		{"group:{payload.op[*]}", "not a list"},
		{"group:{payload[*]}", "not a list"},
		{"group:{body.op.id}", "no such source"},
		{"group:{payload.op.id}:{payload.nope}", "has no field nope"},
	} {
		for kind, rule := range map[string]lockasynq.Rule{
			"SerializeFor": lockasynq.SerializeFor[group]("t", tt.template),
			"OnceFor":      lockasynq.OnceFor[*group]("t", tt.template),
		} {
			_, err := lockasynq.New(engine(t, nil), rule)
			if tt.says == "" && err != nil {
				t.Errorf("%s %s: %v, want no error", kind, tt.template, err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%s %s: %v, want an error with %q", kind, tt.template, err, tt.says)
			}
		}
	}
}

func TestCheckedRulesOnAServer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil),
		lockasynq.SerializeFor[group]("one", "group:{payload.op.id}"),
		lockasynq.OnceFor[group]("once", "once:{payload.op.id}"),
	)
	keys := make(chan string, 10)
	q.serve(l.Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := core.LeaseFrom(ctx)
		keys <- lease.Key()
		return nil
	})))
	for _, want := range []string{"one", "one", "once", "once"} {
		q.become(q.enqueue(want, `{"op":{"id":7}}`), asynq.TaskStateCompleted)
	}
	q.become(q.enqueue("one", `{"op":{}}`), asynq.TaskStateArchived) // only the task can tell
	close(keys)
	var got []string
	for key := range keys {
		got = append(got, key)
	}
	if strings.Join(got, " ") != "group:7 group:7 once:7" {
		t.Errorf("ran under %q, want two serialized and one of two once", got)
	}
}
