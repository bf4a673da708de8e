package recipes

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/keyturn/keyturn/core"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

// inTurn returns a handler of watermill that processes messages of a key one at a time. A message
// that cannot get its turn is an error: watermill's Retry middleware, outside of it, tries again.
func inTurn(locks *lockfunc.Locks, name string, key func(*message.Message) string, handler message.HandlerFunc, opts ...core.CallOption) (message.HandlerFunc, error) {
	run, err := lockfunc.Serialize(locks, name, key, func(ctx context.Context, msg *message.Message) ([]*message.Message, error) {
		msg.SetContext(ctx)
		return handler(msg)
	}, opts...)
	return func(msg *message.Message) ([]*message.Message, error) { return run(msg.Context(), msg) }, err
}
