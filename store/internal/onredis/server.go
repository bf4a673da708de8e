package onredis

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Field returns a field of an answer to INFO; "": it has none.
func Field(said, name string) string {
	for line := range strings.Lines(said) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Hears finds out whether messages arrive on a new subscription, which it closes: publish sends one there.
func Hears(ctx context.Context, sub *redis.PubSub, publish func() error) error {
	defer sub.Close() // the only error is that it is closed
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	_, err := sub.Receive(ctx)
	if err == nil {
		err = publish()
	}
	if err == nil {
		_, err = sub.ReceiveMessage(ctx)
	}
	return err
}
