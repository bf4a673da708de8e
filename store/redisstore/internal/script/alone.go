package script

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// alone sends a plain call by itself through p. It uses a script of its own: alone_acquire.lua
// or alone_release.lua.
func (c *Call) alone(ctx context.Context, p Processor, n Names, inFull bool) *redis.Cmd {
	script := &aloneAcquire
	if c.plain.kind == ends {
		script = &aloneRelease
	}
	name, text := any("evalsha"), script.hash
	if inFull {
		name, text = "eval", script.text
	}
	words := append(c.words[:0], name, text, 2, n.Lock(c.plain.key), n.counterOf(c), n.counterTTL())
	if c.plain.kind == ends {
		words = append(words, (*lastWord)(c))
	} else {
		q := &c.plain.asks
		c.reserved = q.HandOffs // if the reply is a token
		words = append(words, q.Owner, q.TTL.Milliseconds(), q.Notes, q.HandOffs, (*lastWord)(c))
	}
	cmd := redis.NewCmd(ctx, words...)
	_ = p.Process(ctx, cmd) // cmd keeps the error
	return cmd
}

// lastWord is a plain call as the last word of its command. The client marshals it each time
// that it writes the command to a connection, and lastWord counts that, as [Attempts] does.
type lastWord Call

// MarshalBinary implements encoding.BinaryMarshaler.
func (w *lastWord) MarshalBinary() ([]byte, error) {
	w.Attempts.wrote(time.Now())
	b := w.room[:0]
	if w.plain.kind == ends {
		return w.plain.beginning(b), nil
	}
	return w.plain.asks.words(b), nil
}

// String is for hooks that print commands.
func (w *lastWord) String() string { return w.plain.owner }
