package script

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is one call of a script, and what came of it. Names makes one. Its zero value
// calls nothing.
type Call struct {
	Attempts Attempts
	Value    any   // what the script says
	Err      error // why it says nothing

	script   *redis.Script
	keys     []string
	args     []any
	plain    plainCall // what the call is about, if it is plain: it then has no keys and args
	inFull   bool      // send the source: the server did not know its hash
	answered bool      // a batch's reply names it
	reserved uint64    // how many tokens are reserved behind the one in Value
	words    [11]any   // of the command of a plain call that leaves alone
	room     [128]byte // for the last of them
}

func (c *Call) set(script *redis.Script, keys []string, args ...any) {
	c.script, c.keys = script, keys
	c.args = append(args, &c.Attempts)
}

// Slot is the name of a key in the slot of a Cluster that the call is for; "" where one
// server has all keys.
func (c *Call) Slot(n Names) string {
	switch {
	case n.topology == Single:
		return ""
	case c.IsPlain():
		return n.prefix + c.plain.key
	}
	return c.keys[0]
}

// IsPlain says that the call goes in a batch's short form.
func (c *Call) IsPlain() bool { return c.plain.key != "" }

// isEnd says that it is plain, and ends a lease: the other plain ones begin one.
func (c *Call) isEnd() bool { return c.IsPlain() && c.script == releaseScript }

// Fits says whether the call may be part of a batch. A set's may have too many keys for
// that.
func (c *Call) Fits() bool {
	return c.IsPlain() || len(c.keys)+len(c.args) <= 64 && grouped[c.script] != ""
}

// Processor is what clients and pipelines have in common.
type Processor interface {
	redis.Scripter
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run has p run the call by itself: by its script's hash, or in full after
// [Call.Again]. A plain one has a script of its own. [Sent.Finish] reads the reply.
func (c *Call) Run(ctx context.Context, p Processor, n Names) Sent {
	if c.IsPlain() {
		return Sent{call: c, cmd: c.alone(ctx, p, n, c.inFull)}
	}
	if c.inFull {
		return Sent{call: c, cmd: c.script.Eval(ctx, p, c.keys, c.args...)}
	}
	return Sent{call: c, cmd: c.script.EvalSha(ctx, p, c.keys, c.args...)}
}

// RunAlone has p run the call in a round trip of its own.
func (c *Call) RunAlone(ctx context.Context, p Processor, n Names) error {
	err := c.Run(ctx, p, n).Finish(nil)
	if Unknown(err) {
		c.Again()
		err = c.Run(ctx, p, n).Finish(nil)
	}
	return err
}

// Sent is a call that a client has, or that waits in a pipeline.
type Sent struct {
	call *Call
	cmd  *redis.Cmd
}

// Finish takes in the call's reply or error. A pipeline has run before; trouble is what it
// reported, which the commands do not say if it got no connection.
func (s Sent) Finish(trouble error) error {
	c := s.call
	c.Value, c.Err = s.cmd.Result()
	if c.Err == nil && c.Value == nil {
		c.Err = trouble
	}
	if c.IsPlain() {
		c.Err = moving(c.Err)
	}
	return c.Err
}

// RunTogether has p run calls in one round trip, each of which fits; afterwards each has
// a value or an error. The error is of the round trip as a whole.
func RunTogether(ctx context.Context, p Processor, n Names, calls []*Call) error {
	b := newBatch(n, calls)
	cmd := b.run(ctx, p, false)
	if Unknown(cmd.Err()) {
		for _, c := range calls {
			c.Attempts.Refused++
		}
		cmd = b.run(ctx, p, true)
	}
	return b.deliver(cmd)
}

// Again notes that the server did not run the call, and, if it does not know the script,
// that the next one goes in full.
func (c *Call) Again() {
	if Unknown(c.Err) {
		c.inFull = true
	}
	c.Attempts.Refused++
}

// Attempts goes along as the last argument, which no script reads, and is told by
// the client each time that it writes the call to a connection. The client
// repeats calls whose reply was lost, and an answer means something else if
// an earlier attempt may have done the work already.
type Attempts struct {
	Sent    int       // how often it was written
	Refused int       // how often the server said that it had not run it
	First   time.Time // when it was written first
	Last    time.Time // and last
}

// wrote notes that it is about to be written.
func (a *Attempts) wrote(now time.Time) {
	if a.Sent == 0 {
		a.First = now
	}
	a.Sent++
	a.Last = now
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (a *Attempts) MarshalBinary() ([]byte, error) {
	a.wrote(time.Now())
	return nil, nil
}

// String is for hooks that print commands.
func (*Attempts) String() string { return "" }

// Possible is how many attempts the server may have run. In a cluster those it
// redirected are among them: the client does not tell us.
func (a *Attempts) Possible() int { return a.Sent - a.Refused }
