package proof_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The environment of a process that the tests start: this test binary again.
const (
	envAddr    = "KEYTURN_PROOF_ADDR"
	envFile    = "KEYTURN_PROOF_FILE"
	envProcess = "KEYTURN_PROOF_PROCESS"
)

// actAsProcess does the work of a started process, if this is one: it takes and
// frees locks until its standard input ends.
func actAsProcess() {
	addr := os.Getenv(envAddr)
	if addr == "" {
		return
	}
	file, err := os.OpenFile(os.Getenv(envFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(err)
	nr, err := strconv.Atoi(os.Getenv(envProcess))
	must(err)
	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}), redisstore.WithWaiterLease(time.Second))
	must(err)
	eng, err := core.New(store, core.WithTTL(work.TTL), core.WithMaxWait(time.Second),
		core.WithLogger(slog.New(slog.DiscardHandler))) // most of what is lost is taken by force, as the program wants it
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	(&work.Worker{Engine: eng, Recorder: history.NewRecorder(nr, file, work.Monotonic, work.SharedClock())}).Work(ctx)
	must(eng.Close(context.Background()))
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
