package hooked_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/hooked"
	"github.com/keyturn/keyturn/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryCommandPassesTheHooks also with several of them through one client, and once each.
func TestEveryCommandPassesTheHooks(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	names := &recorder{}
	client.AddHook(names)
	ctx := context.Background()

	first, second := hooked.WithTimeout(client, time.Second), hooked.WithTimeout(client, 2*time.Second)
	third, conn := hooked.OnConn(client, time.Second)
	defer conn.Close()
	for i, r := range []hooked.Client{first, second, third} {
		names.all = nil
		checktest.Must(t, r.Set(ctx, "k", i, 0).Err())
		pipe := r.Pipeline()
		value := pipe.Get(ctx, "k")
		pipe.Del(ctx, "k")
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := value.Int(); n != i || err != nil {
			t.Errorf("client %d: read %d, %v", i, n, err)
		}
		if want := []string{"set", "get", "del"}; !slices.Equal(names.all, want) {
			t.Errorf("client %d: the hook saw %q, want %q", i, names.all, want)
		}
	}

	names.all = nil
	if err := client.Ping(ctx).Err(); err != nil || !slices.Equal(names.all, []string{"ping"}) {
		t.Errorf("a command of the caller's own: %v, seen %q", err, names.all)
	}
}

// TestTheTimeoutIsItsOwn: a server that is silent for longer than the timeout.
func TestTheTimeoutIsItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = time.Minute, -1 })
	ctx := context.Background()
	r := hooked.WithTimeout(client, 50*time.Millisecond)
	checktest.Must(t, r.Ping(ctx).Err())
	server.Pause()
	defer server.Resume()
	err := r.Ping(ctx).Err() // with the client's own timeout the test would be ended first
	var silent interface{ Timeout() bool }
	if !errors.As(err, &silent) || !silent.Timeout() {
		t.Errorf("a server that is silent: %v", err)
	}
}

// recorder is a hook that notes the names of commands, except those that begin a connection.
type recorder struct{ all []string }

func (r *recorder) note(cmd redis.Cmder) {
	if name := cmd.Name(); name != "hello" && name != "client" {
		r.all = append(r.all, name)
	}
}

func (*recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return next(ctx, cmds)
	}
}
