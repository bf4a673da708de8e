package lockgrpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

// written is a log that may be read while it is written.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// A release that the store does not answer is nothing to the client: the work was done
// while the key was held. The operator is told, with key and rule, and the next call for
// the key need not wait for the TTL.
func TestUnansweredRelease(t *testing.T) {
	store, log := locktest.NewStore(memstore.New()), &written{}
	eng := engine(t, store, core.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		store.Refuse()
		return &testpb.SetStatusResponse{}, nil
	}}
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}")))
	for range 2 {
		if _, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 42}); err != nil {
			t.Error(err)
		}
		store.Heal()
	}
	if !strings.Contains(log.String(), `release unanswered, key may stay locked" key=user:42 rule=`) {
		t.Errorf("the log has no key and rule:\n%s", log)
	}
}
