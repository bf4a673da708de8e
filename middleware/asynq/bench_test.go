package lockasynq_test

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"

	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// The cost that a rule adds to a handler, over a store in memory: no Redis, no asynq server, no
// other caller that wants the key.
func BenchmarkMiddleware(b *testing.B) {
	eng := engine(b)
	mux := func(rules ...lockasynq.Rule) asynq.Handler {
		m := asynq.NewServeMux()
		if len(rules) > 0 {
			m.Use(locks(b, eng, rules...).Middleware)
		}
		m.HandleFunc("im:", succeed)
		return m
	}
	for _, bb := range []struct {
		name    string
		handler asynq.Handler
	}{
		{"none", mux()},
		{"without a rule", mux(lockasynq.Serialize("other:", "k"))},
		{"constant key", mux(lockasynq.Serialize("im:", "k"))},
		{"payload key", mux(lockasynq.Serialize("im:", "user:status:{payload.user_id}"))},
		{"key function", mux(lockasynq.SerializeBy("im:", nameKey))},
		{"once, already executed", mux(lockasynq.Once("im:", "msg:{payload.user_id}"))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			task := asynq.NewTask("im:status", []byte(`{"user_id":42,"name":"n","status":"away"}`))
			for b.Loop() {
				must(b, bb.handler.ProcessTask(context.Background(), task))
			}
		})
	}
}
