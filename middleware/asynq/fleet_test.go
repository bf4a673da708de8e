package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The environment of a worker process: this test binary again.
const (
	envAddr = "KEYTURN_TEST_ADDR"
	envDies = "KEYTURN_TEST_DIES"
)

// Where a worker process dies, if at all.
const (
	diesWorking = "after the effect, before its record"
	diesDone    = "after the record, before asynq knows"
)

// How long the key of a dead worker stays taken.
const fleetTTL = 2 * time.Second

// actAsWorker serves tasks until it is killed, or its standard input ends with
// the test, if this process was started for that.
func actAsWorker() {
	addr := os.Getenv(envAddr)
	if addr == "" {
		return
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	eng, err := fleetEngine(client)
	if err != nil {
		panic(err)
	}
	h, err := fleetHandler(eng, client, os.Getenv(envDies))
	if err != nil {
		panic(err)
	}
	if err := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, fleetConfig()).Start(h); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func fleetEngine(client *redis.Client) (*core.Engine, error) {
	store, err := redisstore.New(client)
	if err != nil {
		return nil, err
	}
	return core.New(store, core.WithTTL(fleetTTL))
}

func fleetConfig() asynq.Config {
	return asynq.Config{
		Concurrency:              4,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
		IsFailure:                lockasynq.IsFailure(nil),
		RetryDelayFunc:           lockasynq.RetryDelay(atOnce),
	}
}

// fleetHandler does what the protected resource would not forgive: it counts by
// reading a number, taking its time, and writing it back.
func fleetHandler(eng *core.Engine, client *redis.Client, dies string) (asynq.Handler, error) {
	locks, err := lockasynq.New(eng,
		lockasynq.Once("message", "msg:{payload.counter}"),
		newestDocument, uniqueDocument)
	if err != nil {
		return nil, err
	}
	counting := handler(func(ctx context.Context, task *asynq.Task) error {
		n, err := client.Get(ctx, "effects").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		time.Sleep(3 * time.Millisecond)
		if err := client.Set(ctx, "effects", n+1, 0).Err(); err != nil {
			return err
		}
		dieAt(diesWorking, dies)
		return nil
	})
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return handler(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			dieAt(diesDone, dies)
			return err
		})
	}, locks.Middleware)
	mux.Handle("message", counting)
	mux.Handle("index", indexing(client))
	mux.Handle("sync", syncing(client))
	return mux, nil
}

// dieAt is kill -9 from within.
func dieAt(here, dies string) {
	if here != dies {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// workerProcess is one that was started by a test.
type workerProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	gone chan struct{}
}

// ended waits for its end.
func (w workerProcess) ended() {
	w.t.Helper()
	receive(w.t, "the worker to die", w.gone)
}

// kill is kill -9 from outside.
func (w workerProcess) kill() {
	w.t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.t.Error(err)
	}
	w.ended()
}

// startWorker starts a worker process.
func startWorker(t *testing.T, q *queue, dies string) workerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envAddr+"="+q.redis.Addr(), envDies+"="+dies)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // killed, in some tests
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error would be that it has ended
		_ = stdin.Close()
		<-gone
	})
	return workerProcess{t: t, cmd: cmd, gone: gone}
}

// serveHere makes this process a worker too.
func serveHere(t *testing.T, q *queue) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: q.redis.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	eng, err := fleetEngine(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	h, err := fleetHandler(eng, client, "")
	if err != nil {
		t.Fatal(err)
	}
	q.serve(h)
	return client
}

// A worker process is killed; asynq's recoverer gives its task to another.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	for dies, want := range map[string]int{diesDone: 1, diesWorking: 2} {
		t.Run(dies, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			worker := startWorker(t, q, dies)
			id := q.enqueue("message", `{"counter":1}`)
			worker.ended()
			q.expireLease(id)
			client := serveHere(t, q) // looks for such tasks when it starts
			q.become(id, asynq.TaskStateCompleted)
			if n, err := client.Get(context.Background(), "effects").Int(); err != nil || n != want {
				t.Errorf("the handler took effect %d times (%v), want %d", n, err, want)
			}
		})
	}
}

// expireLease spares the minute that asynq takes to give up on a dead worker.
func (q *queue) expireLease(id string) {
	q.t.Helper()
	q.cli("ZADD", "asynq:{default}:lease", fmt.Sprint(time.Now().Add(-time.Minute).Unix()), id)
}

func (q *queue) cli(command ...string) {
	q.t.Helper()
	if out, err := q.redis.CLI(command...); err != nil || strings.Contains(out, "ERR") {
		q.t.Fatalf("%q: %s %v", command, out, err)
	}
}
