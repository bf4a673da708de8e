package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The environment of a process of a fleet that moves: the servers it knows, and the witness.
const (
	envOld     = "KEYTURN_TEST_OLD"
	envNew     = "KEYTURN_TEST_NEW"
	envWitness = "KEYTURN_TEST_WITNESS"
)

// move takes turns on key until its standard input ends. The witness, a server of its own, knows how
// many are inside, and the tokens in the order of the turns.
func move(key string, ttl time.Duration) {
	engine := func(addr string, opts ...core.EngineOption) *core.Engine {
		store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}))
		if err != nil {
			panic(err)
		}
		eng, err := core.New(store, opts...)
		if err != nil {
			panic(err)
		}
		return eng
	}
	var eng *core.Engine
	switch old, new := os.Getenv(envOld), os.Getenv(envNew); {
	case new == "":
		eng = engine(old)
	case old == "":
		eng = engine(new)
	default:
		eng = engine(new, core.WithMoveFrom(engine(old)))
	}
	stop, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	witness := redis.NewClient(&redis.Options{Addr: os.Getenv(envWitness)})
	ctx := context.Background()
	turns := 0
	for ; stop.Err() == nil; turns++ {
		err := eng.Do(ctx, key, func(ctx context.Context) error {
			if n := witness.Incr(ctx, "inside").Val(); n != 1 {
				return fmt.Errorf("%d inside", n)
			}
			l, _ := core.LeaseFrom(ctx)
			witness.RPush(ctx, "tokens", l.Token())
			return witness.Decr(ctx, "inside").Err()
		}, core.WithTTL(ttl))
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	fmt.Println("moved", turns)
	os.Exit(0)
}

// TestMoveToAnotherServer: a fleet of processes goes from one server to another, whose clock is
// ahead, while it works. There are never two holders, and tokens rise.
func TestMoveToAnotherServer(t *testing.T) {
	t.Parallel()
	old, witness := redistest.Start(t), redistest.Start(t)
	new, machine := redistest.StartOnMachine(t)
	machine.Jump(50 * time.Millisecond)
	start := func(env ...string) *process {
		return startProcess(t, witness, "k", 5*time.Second, append(env, envWitness+"="+witness.Addr())...)
	}
	both := []string{envOld + "=" + old.Addr(), envNew + "=" + new.Addr()}
	running := func(ps ...*process) { // until each has had turns
		t.Helper()
		time.Sleep(time.Second)
		for _, p := range ps {
			select {
			case line := <-p.lines:
				t.Fatal(line)
			default:
			}
		}
	}
	stop := func(ps ...*process) {
		t.Helper()
		for _, p := range ps {
			_ = p.stdin.Close()
		}
		for _, p := range ps {
			if p.says("moved", startup) == "0" {
				t.Error("a process had no turn")
			}
		}
	}
	before := []*process{start(both[0]), start(both[0])}
	running(before...)
	between := []*process{start(both...), start(both...)}
	running(append(between, before...)...)
	stop(before...)
	after := []*process{start(both[1]), start(both[1])}
	running(append(after, between...)...)
	stop(between...)
	running(after...)
	stop(after...)

	tokens, err := witness.Client().LRange(context.Background(), "tokens", 0, -1).Result()
	if err != nil || len(tokens) < 100 {
		t.Fatalf("%d turns, %v", len(tokens), err)
	}
	for i := 1; i < len(tokens); i++ { // of equal length, so they compare as text
		if tokens[i] <= tokens[i-1] {
			t.Errorf("turn %d has token %s after %s", i, tokens[i], tokens[i-1])
		}
	}
}
