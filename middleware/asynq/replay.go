package lockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
)

// runOnce calls fn unless it has succeeded for this key before.
//
// The record has no result. The sender of a task does not wait for one, and what a handler
// writes to its ResultWriter goes directly to that task in Redis. So a second task gets nothing
// but the success of the first.
func (w work) runOnce(ctx context.Context, fn func(context.Context) error, opts ...core.CallOption) (refused, own error) {
	out, refused, own := w.RunOnce(ctx, w.keys, func(ctx context.Context) ([]byte, error) {
		return nil, fn(ctx)
	}, append(opts, core.WithFingerprint(fingerprint(w.task)))...)
	if out.Duplicate && errors.Is(refused, core.ErrResultNotKept) {
		return nil, nil // done by something that had a result, which nobody needs here
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
