package lockriver

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/internal/jsonpath"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// request is what keys are made from.
type request struct {
	ctx  context.Context
	job  *rivertype.JobRow
	args func() (jsonpath.Document, error) // decodes the arguments once, if they are needed
}

func newRequest(ctx context.Context, job *rivertype.JobRow) *request {
	return &request{ctx: ctx, job: job, args: sync.OnceValues(func() (jsonpath.Document, error) {
		return jsonpath.Parse(job.EncodedArgs)
	})}
}

// bind binds a placeholder to a value.
func bind(p keytmpl.Placeholder) (rule.Source[*request], error) {
	source, rest := p.Path[0].Name, len(p.Path) > 1
	switch {
	case source == "args" && (p.Multiple() || rest):
		return rule.Inside(p, func(r *request) (jsonpath.Document, error) { return r.args() }), nil
	case p.Multiple() || rest:
	case source == "args":
		return one(func(j *rivertype.JobRow) string { return string(j.EncodedArgs) }), nil
	case source == "kind":
		return one(func(j *rivertype.JobRow) string { return j.Kind }), nil
	case source == "queue":
		return one(func(j *rivertype.JobRow) string { return j.Queue }), nil
	case source == "id":
		return one(func(j *rivertype.JobRow) string { return strconv.FormatInt(j.ID, 10) }), nil
	}
	return rule.Source[*request]{}, errors.New("no such source: want args, args.<path>, kind, queue or id")
}

func one(value func(*rivertype.JobRow) string) rule.Source[*request] {
	return rule.Source[*request]{One: func(r *request) (string, error) { return value(r.job), nil }}
}
