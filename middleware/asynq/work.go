package lockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
)

// work is a task that a rule processes.
type work struct {
	*checked
	task    *asynq.Task
	keys    rule.Keys
	handler asynq.Handler
	setup   *setup
	why     *refused // for the ErrorHandler
	last    bool     // it is the last attempt
	version uint64   // set if its rule has versions
}

// read reads from the task what the rule needs. It returns the answer to asynq if it can't, and why.
func (w *work) read(ctx context.Context, task *asynq.Task) (answer, err error) {
	req := newRequest(ctx, task)
	if w.keys, err = w.Keys(ctx, req); err != nil {
		return answers[refusal.Of(err)](*w, ctx, err, nil), err
	}
	if w.versionOf != nil {
		if w.version, err = w.versionOf(req); err != nil {
			return w.reject(ctx, err, nil), err
		}
	}
	return nil, nil
}

// try waits for the keys for as long as the rule says, but no longer than the task has time
// for, and runs the handler under them.
func (w work) try(ctx context.Context) error {
	t := takeTurn(ctx)
	defer t.end()
	refused, own := w.run(t, func(ctx context.Context) error {
		if !t.came() {
			return errTurnOver
		}
		return w.handler.ProcessTask(ctx, w.task)
	})
	held := &core.HeldError{Key: w.Engine().ShowKey(w.keys.First)} // asynq keeps its text
	switch {
	case own == errTurnOver: // the key was free, so what the rule does with a held key would be wrong
		w.why.err = held
		return w.reschedule(0, held)
	case refused != nil && t.over() && refusal.Of(refused).CallersEnd():
		return w.answer(ctx, held, nil)
	}
	return w.answer(ctx, refused, own)
}

// insist is for the task's last attempt and for [Wait]. Where try would be rescheduled, it
// waits and tries again, until the handler has run or the task's own time is over. If the
// server shuts down meanwhile, asynq puts the task back into its queue. If attempts are left,
// insist does not wait for the end of an outage: the end of the task's time would use up an
// attempt.
func (w work) insist(ctx context.Context) error {
	for {
		err := w.attempt(ctx)
		again, ok := err.(*RescheduleError)
		if !ok || again.setup != w.setup { // the handler's own error, or one of rules further inside
			return err
		}
		if !w.last && !contended(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // asynq handles the end of the context itself
		case <-time.After(again.delay()):
		}
	}
}

// attempt is one attempt of insist. A rule that decides about a held key itself also decides
// how long to wait for it.
func (w work) attempt(ctx context.Context) error {
	switch w.conflict {
	case Skip, Fail:
		return w.try(ctx)
	}
	refused, own := w.run(ctx, func(ctx context.Context) error {
		return w.handler.ProcessTask(ctx, w.task)
	}, core.WithMaxWait(core.Forever))
	return w.answer(ctx, refused, own)
}

// run calls fn under the keys, unless the store knows a reason not to. refused is the engine's
// error or such a reason, and own is fn's error, as in [rule.Rule.Serialize].
func (w work) run(ctx context.Context, fn func(context.Context) error, opts ...core.CallOption) (refused, own error) {
	if w.Once {
		// The record has no result. The sender of a task does not wait for one, and what a handler
		// writes to its ResultWriter goes directly to that task in Redis.
		return w.DoOnce(ctx, w.keys, fn, append(opts, core.WithFingerprint(fingerprint(w.task)))...)
	}
	if err := w.comes(ctx); err != nil {
		return err, nil
	}
	var kept error // why fn must not run
	refused, own = w.Serialize(ctx, w.keys, func(ctx context.Context) error {
		if kept = w.begins(ctx); kept != nil {
			return nil
		}
		return fn(ctx)
	}, opts...)
	if kept != nil {
		return kept, nil
	}
	return refused, own
}

// fingerprint identifies what a task asks for: its type and payload. Its id and headers do not
// count, because they differ from one delivery of a message to the next.
func fingerprint(task *asynq.Task) []byte {
	h := sha256.New()
	// The length comes first, so that type "ab" with payload "c" differs from type "a" with
	// payload "bc".
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(task.Type())))
	h.Write(size[:])
	h.Write([]byte(task.Type()))
	h.Write(task.Payload())
	return h.Sum(nil)
}

// comes does what has to be done before the task waits for its key. A task on its last attempt
// does not give way to another: it runs, or asynq archives it.
func (w work) comes(ctx context.Context) error {
	if err := w.announce(ctx); err != nil || !w.last {
		return err
	}
	return w.started(ctx)
}

// begins does what has to be done when the task has its key.
func (w work) begins(ctx context.Context) error {
	if err := w.announce(ctx); err != nil {
		return err
	}
	return w.started(ctx)
}
