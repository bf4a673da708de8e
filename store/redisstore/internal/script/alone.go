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
	words := append(c.words[:0], name, text, 2, n.prefix+c.plain.key, n.counterOf(c), n.counterTTL())
	if c.plain.kind == ends {
		words = append(words, (*lastWord)(c))
	} else {
		c.reserved = c.plain.wanted // if the reply is a token
		words = append(words, c.plain.owner, c.plain.number, c.plain.notes, c.plain.wanted, (*lastWord)(c))
	}
	cmd := redis.NewCmd(ctx, words...)
	_ = p.Process(ctx, cmd) // cmd keeps the error
	return cmd
}

// inWords returns a plain call about a record as the scripts read it that are not for plain calls
// alone.
func (c *Call) inWords(n Names) (keys []string, args []any) {
	p := &c.plain
	args = make([]any, 0, 17)
	args = append(args, p.owner, n.topology == Single, n.counterTTL(), "x", p.number)
	if p.kind == completes {
		args = append(args, p.record.head, p.record.about, p.record.result, p.record.retention)
	} else {
		w := &p.wait
		args = append(args, w.inLine, w.patience.Milliseconds(), w.claim.Milliseconds(), w.inbox, true, p.notes,
			w.waited.Milliseconds(), w.before, w.question, p.wanted, w.part)
	}
	return n.append(make([]string, 0, len(sides)+2), p.key), append(args, &c.Attempts)
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
	return append(w.plain.wait.words(b), w.plain.wait.inbox...), nil
}

// String is for hooks that print commands.
func (w *lastWord) String() string { return w.plain.owner }
