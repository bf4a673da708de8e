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
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/redisstore"
)

// envAddr is in the environment of a worker process: this test binary again.
const envAddr = "KEYTURN_TEST_ADDR"

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
	h, err := fleetHandler(eng, client)
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
func fleetHandler(eng *core.Engine, client *redis.Client) (asynq.Handler, error) {
	locks, err := lockasynq.New(eng, newestDocument, uniqueDocument)
	if err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Use(locks.Middleware)
	for typename, work := range map[string]func(context.Context, *redis.Client, document) error{"index": reindex, "sync": copyOver} {
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

// startWorker starts a process of its own. kill is kill -9.
func startWorker(t *testing.T, q *queue) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envAddr+"="+q.redis.Addr())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
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
	return func() {
		t.Helper()
		wantNil(t, cmd.Process.Kill())
		ruletest.Receive(t, "the worker to die", gone)
	}
}

// expireLeases has asynq take all tasks in hand for those of dead workers, also of living ones: then two workers
// have the same task. It spares the minute that asynq takes to give up on a dead worker.
func (q *queue) expireLeases() {
	q.t.Helper()
	const leases = "asynq:{default}:lease"
	for _, id := range strings.Fields(q.cli("ZRANGE", leases, "0", "-1")) {
		q.cli("ZADD", leases, fmt.Sprint(time.Now().Add(-time.Minute).Unix()), id)
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
