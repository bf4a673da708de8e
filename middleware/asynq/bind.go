package lockasynq

import (
	"context"
	"fmt"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/internal/jsonpath"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// request is what keys are made from. It belongs to one goroutine.
type request struct {
	ctx     context.Context
	task    *asynq.Task
	payload func() (jsonpath.Document, error) // decodes the payload once, if it is needed
}

func newRequest(ctx context.Context, task *asynq.Task) *request {
	return &request{ctx: ctx, task: task, payload: sync.OnceValues(func() (jsonpath.Document, error) {
		return jsonpath.Parse(task.Payload())
	})}
}

// bind binds a placeholder to a value, and checks it, when New is called. If the rule has the
// type of its payloads, bind knows their fields before there is a task.
func (r Rule) bind(p keytmpl.Placeholder) (rule.Source[*request], error) {
	if r.payload != nil && p.Path[0].Name == "payload" && (len(p.Path) > 1 || p.Multiple()) {
		if err := jsonpath.Check(r.payload, p); err != nil {
			return rule.Source[*request]{}, err
		}
	}
	if source := p.Path[0].Name; r.untilStarted && (source == "id" || source == "queue") {
		return rule.Source[*request]{}, fmt.Errorf("the key of UniqueUntilStarted makes the task's id, before there is a queue or an id")
	}
	return bind(p)
}

// bind is the part that is the same for every rule.
func bind(p keytmpl.Placeholder) (rule.Source[*request], error) {
	source, rest := p.Path[0].Name, p.Path[1:]
	switch {
	case source == "payload" && len(rest) == 0 && !p.Multiple():
		return one(func(r *request) (string, error) { return string(r.task.Payload()), nil }), nil
	case source == "payload":
		return rule.Inside(p, func(r *request) (jsonpath.Document, error) { return r.payload() }), nil
	case p.Multiple():
		return rule.Source[*request]{}, fmt.Errorf("%s has a single value: use [*] only for lists in the payload", source)
	case source == "header" && len(rest) > 0: // unlike in HTTP, upper and lower case differ
		name := rule.Name(p)
		return one(func(r *request) (string, error) { return r.task.Headers()[name], nil }), nil
	case source == "type" && len(rest) == 0:
		return one(func(r *request) (string, error) { return r.task.Type(), nil }), nil
	case source == "queue" && len(rest) == 0:
		return one(func(r *request) (string, error) { return fromContext(asynq.GetQueueName(r.ctx)) }), nil
	case source == "id" && len(rest) == 0:
		return one(func(r *request) (string, error) { return fromContext(asynq.GetTaskID(r.ctx)) }), nil
	}
	return rule.Source[*request]{}, fmt.Errorf("no such source: want payload, payload.<path>, header.<name>, type, queue or id")
}

func one(value func(*request) (string, error)) rule.Source[*request] {
	return rule.Source[*request]{One: value}
}

// fromContext returns what asynq's server put into the context. There is nothing if something
// else calls the handler, such as a test.
func fromContext(value string, ok bool) (string, error) {
	if !ok {
		return "", fmt.Errorf("%w: the context is not from an asynq server", keytmpl.ErrMissingValue)
	}
	return value, nil
}
