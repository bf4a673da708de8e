package node

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// pipeline sends calls by the names of their scripts, or with the scripts' text. lost are those without
// an answer. missing are those whose scripts the server does not know, which it has not run, and the
// calls behind them for the same lock: a vote that is taken back before it is given would stay.
func (l *connQueue) pipeline(ctx context.Context, calls []*Call, text bool) (missing, lost []*Call, broken error) {
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = redis.NewCmd(ctx, c.command(text, l.runID)...)
	}
	pipe := l.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, c := range calls {
		reply, err := cmds[i].Result()
		switch {
		case err == nil && slices.ContainsFunc(missing, c.sameLock):
			c.repeated = true
			missing = append(missing, c)
		case err == nil && c.repeated && c.Certain != nil && !c.Certain(reply):
			c.Done(nil, errLost) // the first try may have done it
		case err == nil:
			c.Done(reply, nil)
		case !fromServer(err):
			lost, broken = append(lost, c), err
		case strings.HasPrefix(err.Error(), "NOSCRIPT") && !text:
			missing = append(missing, c)
		default:
			c.Done(nil, err)
		}
	}
	return missing, lost, broken
}

// sameLock reports whether both calls are for one lock.
func (c *Call) sameLock(other *Call) bool {
	return len(c.Keys) > 0 && len(other.Keys) > 0 && c.Keys[0] == other.Keys[0]
}

// fromServer reports whether err is an answer.
func fromServer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// command returns the words of the command.
func (c *Call) command(text bool, runID string) []any {
	words := make([]any, 0, 4+len(c.Keys)+len(c.Args))
	if text {
		words = append(words, "eval", c.Script.Text)
	} else {
		words = append(words, "evalsha", c.Script.SHA)
	}
	words = append(words, len(c.Keys))
	for _, k := range c.Keys {
		words = append(words, k)
	}
	words = append(words, c.Args...)
	if c.RunID {
		words = append(words, runID)
	}
	return words
}
