package lockgrpc_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/testpb"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/store/redisstore"
)

// Two replicas of a service share nothing but a Redis.
func TestReplicasOnRedis(t *testing.T) {
	redis := redistest.Start(t)
	statuses := 0 // read, changed and written by both
	var mu sync.Mutex
	written := map[string]int{}
	s := &server{
		setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			mu.Lock() // for the race detector, which does not see what is locked in Redis
			read := statuses
			mu.Unlock()
			time.Sleep(time.Millisecond) // room for the other replica, if it got in
			mu.Lock()
			statuses = read + 1
			mu.Unlock()
			return &testpb.SetStatusResponse{Text: fmt.Sprint(read + 1)}, nil
		},
		members: func(_ context.Context, r *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			written[r.GetGroup().GetId()]++
			return &testpb.AddMembersResponse{Size: int32(written[r.GetGroup().GetId()])}, nil
		},
	}
	replica := func() client {
		store, err := redisstore.New(redis.Client(), redisstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		eng := engine(t, store, core.WithMaxWait(5*time.Second))
		return serve(t, s, locks(t, eng,
			lockgrpc.Serialize(setStatus, "user:status:{user_id}"),
			lockgrpc.Once(addMembers, "once:add:{group.id}"),
			lockgrpc.Serialize(watch, "group:{group_id}", core.WithFailFast()),
		))
	}
	replicas := []client{replica(), replica()}
	ctx := bounded(t)

	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			if _, err := replicas[i%2].SetStatus(ctx, online(42)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if statuses != 40 {
		t.Errorf("%d of 40 updates are left", statuses)
	}

	for i := range 10 {
		calls.Go(func() {
			var header metadata.MD
			request := &testpb.AddMembersRequest{Group: &testpb.Group{Id: fmt.Sprint(i / 2)}}
			if resp, err := replicas[i%2].AddMembers(ctx, request, grpc.Header(&header)); err != nil || resp.GetSize() != 1 {
				t.Error(resp, err)
			}
		})
	}
	calls.Wait()

	// A client in another language has the lock.
	if err := redis.Client().Set(ctx, "lock:group:7", "another", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	watching := func() error {
		stream, err := replicas[0].Watch(ctx, &testpb.WatchRequest{GroupId: "7"})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	if err := watching(); reason(t, err) != lockgrpc.ReasonLockHeld {
		t.Error(err)
	}

	redis.Kill()
	if err := watching(); status.Code(err) != codes.Unavailable || reason(t, err) != lockgrpc.ReasonStoreUnavailable {
		t.Errorf("without Redis: %v", err)
	}
}
