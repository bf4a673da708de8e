package lockgrpc_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

// Ten thousand calls at the same time on a hundred keys: no two of a key
// overlap, every call is served, and nothing is left (TestMain looks for
// goroutines, the engine's Close for leases).
func TestTenThousandCallsAtOnce(t *testing.T) {
	const calls, keys = 10_000, 100
	var inside [keys]atomic.Int32
	var served [keys]int // what the lock protects; the race detector looks too
	s := &server{setStatus: func(_ context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		key := r.GetUserId() - 1
		if n := inside[key].Add(1); n > 1 {
			t.Errorf("%d handlers at a time", n)
		}
		served[key]++
		inside[key].Add(-1)
		return &testpb.SetStatusResponse{}, nil
	}}
	c := serve(t, s, locks(t, memory(t, core.WithMaxWait(time.Minute)), lockgrpc.Serialize(setStatus, "user:{user_id}")))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range int64(calls) {
		all.Go(func() {
			if _, err := c.SetStatus(ctx, online(i%keys+1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for key, n := range served {
		if n != calls/keys {
			t.Errorf("key %d: %d calls were served", key, n)
		}
	}
}

// Two replicas that share nothing but a store take each other's messages one by
// one.
func TestMessagesOfReplicas(t *testing.T) {
	const streams, messages = 4, 10
	var inside atomic.Int32
	var processed atomic.Int64
	s := &server{chat: func(stream chatStream) error {
		for {
			e, err := stream.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := core.AssertHeld(stream.Context(), core.Exclusive("group:"+e.GetGroupId())); err != nil {
				t.Error(err)
			}
			if n := inside.Add(1); n > 1 {
				t.Errorf("%d messages at a time", n)
			}
			processed.Add(1)
			inside.Add(-1)
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}}
	store := memstore.New()
	replica := func() client { return serve(t, s, locks(t, engine(t, store.Peer()), eachByGroup["template"])) }
	replicas := []client{replica(), replica()}
	var all sync.WaitGroup
	for n := range streams {
		stream := talk(t, replicas[n%2])
		all.Go(func() {
			for i := range messages {
				say(t, stream, "7")
				if e, err := stream.Recv(); err != nil || e.GetGroupId() != "7" {
					t.Error(fmt.Sprint(n, i), e, err)
					return
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err != io.EOF {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if processed.Load() != streams*messages {
		t.Errorf("%d messages were processed", processed.Load())
	}
}
