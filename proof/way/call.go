package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/coverage"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redisstore"
)

// counted is the directory, below the child's GOCOVERDIR, of the one call's counters.
const counted = "call"

// caller makes calls of Do over the server at addr.
type caller struct {
	client *redis.Client
	engine *core.Engine
}

func newCaller(addr string, hooks ...redis.Hook) (*caller, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	for _, h := range hooks { // before the store has its own client, which keeps the hooks of this moment
		client.AddHook(h)
	}
	store, err := redisstore.New(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	eng, err := core.New(store)
	return &caller{client, eng}, err
}

func (c *caller) close(ctx context.Context) error {
	return errors.Join(c.engine.Close(ctx), c.client.Close())
}

func (c *caller) do(ctx context.Context) error {
	return c.engine.Do(ctx, "user:42", func(context.Context) error { return nil })
}

// objects prints how many heap objects a call makes, and how many the client makes for two commands.
func objects(ctx context.Context, addr string, out io.Writer) error {
	c, err := newCaller(addr)
	if err != nil {
		return err
	}
	ours := testing.AllocsPerRun(1000, func() { err = errors.Join(err, c.do(ctx)) })
	client := testing.AllocsPerRun(1000, func() {
		err = errors.Join(err, c.client.Set(ctx, "free", "x", 0).Err(), c.client.Del(ctx, "free").Err())
	})
	fmt.Fprintf(out, "%4.0f heap objects; SET and DEL by the same client: %.0f\n", ours, client)
	return errors.Join(err, c.close(ctx))
}

// callOnce makes warm calls, and writes the counters of one of them. It prints how deep its command was.
func callOnce(ctx context.Context, addr string, list bool) error {
	below := new(depth)
	c, err := newCaller(addr, below)
	if err != nil {
		return err
	}
	for range 100 {
		err = errors.Join(err, c.do(ctx))
	}
	below.frames = nil
	err = errors.Join(err, coverage.ClearCounters(), c.do(ctx))
	dir := filepath.Join(os.Getenv("GOCOVERDIR"), counted)
	err = errors.Join(err, os.Mkdir(dir, 0o700), coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
	fmt.Printf("%4d frames below the command\n", len(below.frames))
	if list {
		fmt.Println(strings.Join(below.frames, "\n"))
	}
	return errors.Join(err, c.close(ctx))
}

// depth is a hook that remembers the most frames of this project that were below a command, without its
// own and the caller's.
type depth struct{ frames []string }

func (d *depth) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (d *depth) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		d.measure()
		return next(ctx, cmd)
	}
}

func (d *depth) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		d.measure()
		return next(ctx, cmds)
	}
}

func (d *depth) measure() {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var found []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, module+"/") && !strings.HasPrefix(f.Function, module+"/proof/") {
			found = append(found, f.Function)
		}
	}
	if len(found) > len(d.frames) {
		d.frames = found
	}
}
