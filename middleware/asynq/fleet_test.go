package lockasynq_test

import (
	"context"
	"encoding/json"
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
	if err := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, config()).Start(h); err != nil {
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

// fleetHandler has the work of the histories, in each worker.
func fleetHandler(eng *core.Engine, client *redis.Client, dies string) (asynq.Handler, error) {
	locks, err := lockasynq.New(eng, lockasynq.Once("message", "msg:{payload.doc}"), newestDocument, uniqueDocument)
	if err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return handler(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			dieAt(diesDone, dies)
			return err
		})
	}, locks.Middleware)
	for typename, work := range map[string]func(context.Context, *redis.Client, document) error{
		"message": func(ctx context.Context, client *redis.Client, _ document) error {
			err := client.Incr(ctx, "effects").Err()
			dieAt(diesWorking, dies)
			return err
		},
		"index": reindex,
		"sync":  copyOver,
	} {
		mux.HandleFunc(typename, func(ctx context.Context, task *asynq.Task) error {
			var doc document
			if err := json.Unmarshal(task.Payload(), &doc); err != nil {
				return err
			}
			return work(ctx, client, doc)
		})
	}
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

// expireLease spares the minute that asynq takes to give up on a dead worker.
func (q *queue) expireLease(id string) {
	q.t.Helper()
	q.cli("ZADD", "asynq:{default}:lease", fmt.Sprint(time.Now().Add(-time.Minute).Unix()), id)
}

// expireLeases has asynq take all tasks in hand for those of dead workers, also of
// living ones: then two workers have the same task.
func (q *queue) expireLeases() {
	q.t.Helper()
	for _, id := range strings.Fields(q.cli("ZRANGE", "asynq:{default}:lease", "0", "-1")) {
		q.expireLease(id)
	}
}

func (q *queue) cli(command ...string) string {
	q.t.Helper()
	out, err := q.redis.CLI(command...)
	if err != nil || strings.Contains(out, "ERR") {
		q.t.Fatalf("%q: %s %v", command, out, err)
	}
	return out
}
