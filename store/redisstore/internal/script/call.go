package script

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is one call of a script, and its result. Methods of [Names] make one. The zero value
// calls nothing.
type Call struct {
	Attempts Attempts
	Value    any   // the script's reply
	Err      error // why there is no reply

	script   *redis.Script
	keys     []string
	args     []any
	plain    plainCall // what the call is about, if it is plain; it then has no keys and args
	inFull   bool      // send the source: the server did not know its hash
	answered bool      // a batch's reply has an entry for it
	reserved uint64    // how many tokens are reserved behind the one in Value
	words    [11]any   // words of the command of a plain call that leaves alone
	room     [128]byte // room for the last of these words
}

func (c *Call) set(script *redis.Script, keys []string, args ...any) {
	c.script, c.keys = script, keys
	c.args = append(args, &c.Attempts)
}

// Slot returns the name of a key in the Cluster's slot that the call is for; "" if one server
// has all keys.
func (c *Call) Slot(n Names) string {
	switch {
	case n.topology == Single:
		return ""
	case c.IsPlain():
		return n.Lock(c.plain.key)
	}
	return c.keys[0]
}

// IsPlain reports whether the call goes in a batch's short form.
func (c *Call) IsPlain() bool { return c.plain.kind != notPlain }

// Fits reports whether the call may be part of a batch. The call of a set may have too many
// keys.
func (c *Call) Fits() bool {
	return c.IsPlain() || len(c.keys)+len(c.args) <= 64 && grouped[c.script] != ""
}

// Processor is the part of go-redis that clients and pipelines have in common.
type Processor interface {
	redis.Scripter
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run sends the call by itself through p: by its script's hash, or in full after [Call.Again].
// A plain acquire or release has a script of its own, and one about a record is a batch of one.
// [Sent.Finish] reads the reply.
func (c *Call) Run(ctx context.Context, p Processor, n Names) Sent {
	switch c.plain.kind {
	case ends, acquires:
		return Sent{call: c, cmd: c.alone(ctx, p, n, c.inFull)}
	case completes, onces:
		b := newBatch(n, []*Call{c})
		return Sent{call: c, cmd: b.run(ctx, p, n, c.inFull), batch: b}
	}
	if c.inFull {
		return Sent{call: c, cmd: c.script.Eval(ctx, p, c.keys, c.args...)}
	}
	return Sent{call: c, cmd: c.script.EvalSha(ctx, p, c.keys, c.args...)}
}

// RunAlone sends the call through p in a round trip of its own.
func (c *Call) RunAlone(ctx context.Context, p Processor, n Names) error {
	err := c.Run(ctx, p, n).Finish(nil)
	if Unknown(err) {
		c.Again()
		err = c.Run(ctx, p, n).Finish(nil)
	}
	return err
}

// Sent is a call that the client has sent, or that waits in a pipeline.
type Sent struct {
	call  *Call
	cmd   *redis.Cmd
	batch *batch // nil: the command is for the call alone
}

// Finish sets the call's value or error. A pipeline has run before. The error that the pipeline
// reported is trouble: if the pipeline got no connection, the commands themselves have no
// error.
func (s Sent) Finish(trouble error) error {
	c := s.call
	c.Value, c.Err = s.cmd.Result()
	switch {
	case c.Err == nil && c.Value == nil:
		c.Err = trouble
	case s.batch != nil:
		_ = s.batch.deliver(s.cmd) // c.Err says it, too
	}
	if c.IsPlain() {
		c.Err = moving(c.Err)
	}
	return c.Err
}

// RunBatch sends calls through p in one round trip; all of them must fit. Afterwards each
// call has a value or an error. The error that RunBatch returns is that of the round trip as
// a whole.
func RunBatch(ctx context.Context, p Processor, n Names, calls []*Call) error {
	b := newBatch(n, calls)
	cmd := b.run(ctx, p, n, false)
	if Unknown(cmd.Err()) {
		for _, c := range calls {
			c.Attempts.Refused++
		}
		cmd = b.run(ctx, p, n, true)
	}
	return b.deliver(cmd)
}

// Again records that the server did not run the call. If the server does not know the script,
// the next attempt sends it in full.
func (c *Call) Again() {
	if Unknown(c.Err) {
		c.inFull = true
	}
	c.Attempts.Refused++
}

// Attempts goes along as the last argument, which no script reads. The client marshals it each
// time that it writes the call to a connection, and Attempts counts that. The count is needed
// because the client repeats a call whose reply was lost: an answer means something else if an
// earlier attempt may have done the work already.
type Attempts struct {
	Sent    int       // how often it was written
	Refused int       // how often the server said that it had not run it
	First   time.Time // when it was written first
	Last    time.Time // when it was written last
}

// wrote records that the client is about to write the call.
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

// Possible returns how many attempts the server may have run. In a Cluster, attempts that a
// server redirected are among them, because the client does not report those.
func (a *Attempts) Possible() int { return a.Sent - a.Refused }
