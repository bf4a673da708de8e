package lockgrpc_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
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

// A Redis that is full: what has been carried out stays so, however often it is
// delivered, and what has not is refused before its handler runs.
func TestEffectsOnARedisWithoutMemory(t *testing.T) {
	redis := redistest.Start(t)
	var effects atomic.Int32
	limit := func(maxmemory string) {
		if out, err := redis.CLI("CONFIG", "SET", "maxmemory", maxmemory); out != "OK" {
			t.Errorf("%s, %v", out, err)
		}
	}
	s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		effects.Add(1)
		limit("1mb") // the server alone takes more
		return &testpb.SetStatusResponse{Text: strings.Repeat("x", 10_000)}, nil
	}}
	replica := func() client {
		store, err := redisstore.New(redis.Client(), redisstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, s, locks(t, engine(t, store, core.WithCircuit(core.Forever)), lockgrpc.Once(setStatus, byMessage)))
	}
	replicas := []client{replica(), replica()}
	resp, err := replicas[0].SetStatus(bounded(t), message("a", 1))
	if err != nil || len(resp.GetText()) != 10_000 {
		t.Errorf("the first caller got %d bytes, %v", len(resp.GetText()), err)
	}
	for _, c := range replicas {
		if _, err := c.SetStatus(bounded(t), message("a", 1)); status.Code(err) != codes.AlreadyExists || reason(t, err) != lockgrpc.ReasonResultNotKept {
			t.Errorf("a repeat: %v", err)
		}
		if _, err := c.SetStatus(bounded(t), message("b", 1)); status.Code(err) != codes.Unavailable || reason(t, err) != lockgrpc.ReasonStoreUnavailable {
			t.Errorf("another message: %v", err)
		}
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	limit("0")
	if _, err := replicas[1].SetStatus(bounded(t), message("b", 1)); err != nil || effects.Load() != 2 {
		t.Errorf("with memory again: %v, %d effects", err, effects.Load())
	}
}
