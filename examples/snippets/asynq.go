package snippets

import (
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/asynq"
)

// snippet

func newMux(eng *core.Engine, deliver asynq.HandlerFunc) (*asynq.ServeMux, error) {
	locks, err := lockasynq.New(eng,
		lockasynq.Once("message:deliver", "deliver:{payload.message_id}", core.WithRetention(24*time.Hour)),
	)
	if err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Use(locks.Middleware)
	mux.HandleFunc("message:deliver", deliver)
	return mux, nil
}

// A task that has to wait for another is rescheduled, which is no failure.
var config = asynq.Config{
	IsFailure:      lockasynq.IsFailure(nil),
	RetryDelayFunc: lockasynq.RetryDelay(nil),
}

// end snippet
