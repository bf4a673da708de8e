//go:build unix

package replicatest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The environment of a process that is a replica: this test binary again.
const (
	envRedis  = "KEYTURN_TEST_REDIS"
	envListen = "KEYTURN_TEST_LISTEN"
)

// actAsReplica serves until it is killed, or its standard input ends with the test, if this process was
// started for that.
func actAsReplica() {
	addr := os.Getenv(envRedis)
	if addr == "" {
		return
	}
	if err := serveReplica(goredis.NewClient(&goredis.Options{Addr: addr}), os.Getenv(envListen)); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func serveReplica(client *goredis.Client, addr string) error {
	store, err := redisstore.New(client)
	if err != nil {
		return err
	}
	eng, err := core.New(store, core.WithTTL(600*time.Millisecond))
	if err != nil {
		return err
	}
	locks, err := lockgrpc.New(eng, lockgrpc.Serialize(serialized, "user:status:{metadata.x-id}"), lockgrpc.Once(once, "once:{metadata.x-id}"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// Each call numbers itself by reading a number, taking its time, and writing the next one.
	number := func() string {
		ctx := context.Background()
		n, _ := client.Get(ctx, "number").Int() // there is none at first
		time.Sleep(2 * time.Millisecond)
		_, err := client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.RPush(ctx, "numbers", n+1)
			return p.Set(ctx, "number", n+1, 0).Err()
		})
		if err != nil {
			panic(err)
		}
		return strconv.Itoa(n + 1)
	}
	s := &service{
		serialized: func() { number() },
		once: func() *pb.SimpleResponse {
			time.Sleep(2 * time.Millisecond)
			return &pb.SimpleResponse{ServerId: fmt.Sprint(client.Incr(context.Background(), "executions").Val())}
		},
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(locks.Unary()))
	pb.RegisterTestServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	return nil
}

// server is a process that serves calls, and is killed and started again.
type server struct {
	addr, redis string
	cmd         *exec.Cmd
}

func (r *server) start(t *testing.T) {
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(os.Environ(), envRedis+"="+r.redis, envListen+"="+r.addr)
	r.cmd.Stderr = os.Stderr
	if _, err := r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must(t, r.cmd.Start())
}

func (r *server) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// TestReplicasOfGRPCAreKilled: no two calls of one key are carried out at the same time, whoever is killed
// meanwhile. And what a caller of Once was answered stays the answer.
func TestReplicasOfGRPCAreKilled(t *testing.T) {
	servertest.Long(t)
	const kills, ids = 10, 60
	redis := redistest.Start(t)
	var replicas [2]*server
	var clients [2]pb.TestServiceClient
	for i := range replicas {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		r := &server{addr: listener.Addr().String(), redis: redis.Addr()}
		listener.Close()
		r.start(t)
		t.Cleanup(func() { r.kill() })
		conn, err := grpc.NewClient(r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		replicas[i], clients[i] = r, pb.NewTestServiceClient(conn)
	}
	ctx, stop := context.WithCancel(bounded(t))
	var mu sync.Mutex
	calls, answers := 0, map[int]string{}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				client, id := clients[(i+n)%2], rand.IntN(ids)
				if _, err := client.EmptyCall(with(ctx, "42"), &pb.Empty{}); err == nil {
					mu.Lock()
					calls++
					mu.Unlock()
				}
				answer, err := client.UnaryCall(with(ctx, strconv.Itoa(id)), &pb.SimpleRequest{})
				if err != nil {
					time.Sleep(10 * time.Millisecond) // its server is down
					continue
				}
				mu.Lock()
				first, ok := answers[id]
				check(t, !ok || first == answer.GetServerId(), "call %d was answered with %q and %q", id, first, answer.GetServerId())
				answers[id] = answer.GetServerId()
				mu.Unlock()
			}
		})
	}
	for range kills {
		time.Sleep(200*time.Millisecond + rand.N(200*time.Millisecond))
		r := replicas[rand.IntN(len(replicas))]
		r.kill()
		r.start(t)
	}
	time.Sleep(time.Second)
	stop()
	all.Wait()
	numbers, err := redis.Client().LRange(context.Background(), "numbers", 0, -1).Result()
	must(t, err)
	for i, n := range numbers {
		if n != strconv.Itoa(i+1) {
			t.Fatalf("call %d had number %s: another one ran at the same time", i+1, n)
		}
	}
	executions, _ := redis.Client().Get(context.Background(), "executions").Int()
	t.Logf("%d calls answered, %d carried out; %d ids executed %d times", calls, len(numbers), len(answers), executions)
	check(t, calls <= len(numbers) && calls >= 50 && len(answers) >= ids/2, "%d calls were answered, and %d carried out; %d ids", calls, len(numbers), len(answers))
	check(t, executions <= len(answers)+6*kills, "%d executions of %d ids", executions, len(answers))
}
