package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
)

// Process is what a started process is told. Its program is the one that starts it.
type Process struct {
	Nr       int
	File     string // where its events go
	Addrs    []string
	Topology string // what Addrs are: of Redis, etcd or ZooKeeper, or for "postgres" a data source name
	Resource string // the address of the registers
	System   string // "keyturn", or one of those that it is compared with
	TTL      time.Duration
	Replicas int // of redisstore.WithReplicas; 0: none
	Rest     time.Duration
	Think    time.Duration
	Plain    bool // as in a Worker
}

// env has a Process, for the process itself.
const env = "KEYTURN_PROOF"

// Env returns the environment variable that makes the program one of the processes.
func (p Process) Env() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it can always be encoded
	}
	return env + "=" + string(text)
}

// ActAsProcess does the work of a process, if this is one, until its standard input ends. Then it
// ends the program. Otherwise it returns at once. It is called first in main, or in TestMain.
func ActAsProcess() {
	text, ok := os.LookupEnv(env)
	if !ok {
		return
	}
	var p Process
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p Process) run() error {
	file, err := os.OpenFile(p.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	resource, err := work.Dial(p.Resource)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	redistest.Quiet() // connections break all the time, and most of what is lost is meant to be
	slog.SetDefault(slog.New(slog.DiscardHandler))
	recorder := history.NewRecorder(p.Nr, file, work.Monotonic, work.SharedClock())
	if p.System != "keyturn" {
		return (&peer{p, recorder, resource}).work(ctx)
	}
	return p.work(ctx, &work.Worker{Seed: rand.Uint64(), Recorder: recorder, Resource: resource, TTL: p.TTL, Rest: p.Rest, Think: p.Think, Plain: p.Plain})
}

// work is what a process does with keyturn.
func (p Process) work(ctx context.Context, w *work.Worker) error {
	store, err := p.open(ctx)
	if ctx.Err() != nil {
		return nil // it was never connected
	}
	if err != nil {
		return err
	}
	if err := w.NewEngine(store); err != nil {
		return err
	}
	w.Work(ctx)
	err = w.Engine.Close(context.Background())
	if errors.Is(err, core.ErrOutcomeUnknown) {
		err = nil // the last releases met a fault
	}
	return err
}
