// Package node is what the processes of the fleet have in common: where they
// meet in Redis, and the lock engine.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/im/db"
	"github.com/keyturn/keyturn/store/redisstore"
	"github.com/keyturn/keyturn/tracing"
)

// Config is the same for all processes of a fleet.
type Config struct {
	RedisURL string
	// Run names the fleet. Whatever it leaves in Redis has Run in its key, so
	// that runs don't meet each other and can be told from other people's data.
	Run string
	// Guarded turns the locks on.
	Guarded bool
	// Collector is where a process reports its spans to; "" for no telemetry.
	Collector string
}

// Queue is the asynq queue between gateways and services.
func (c Config) Queue() string { return c.Run }

// Node is one process's share. Close it.
type Node struct {
	Config
	Redis *redis.Client
	DB    *db.DB
	Locks *core.Engine // nil: this fleet runs without keyturn
}

// Open makes a node and does no I/O.
func Open(cfg Config) (*Node, error) {
	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return nil, errors.New("the Redis URL can't be read") // it may have a password: don't repeat it
	}
	n := &Node{Config: cfg, Redis: redis.NewClient(opts)}
	n.DB = db.New(n.Redis, cfg.Run+":db:")
	if cfg.Guarded {
		n.Locks, err = newEngine(n.Redis, cfg.Run+":lock:")
	}
	return n, err
}

// newEngine is all it takes to have locks that every process sees. Most programs
// have no need of a prefix; all that share locks must agree on it.
func newEngine(client *redis.Client, prefix string) (*core.Engine, error) {
	store, err := redisstore.New(client, redisstore.WithPrefix(prefix))
	if err != nil {
		return nil, err
	}
	// Without a tracer and a meter provider, which Config.Collector brings, this
	// costs nothing. A group's key names no person, so it may be seen.
	hooks, err := tracing.New(tracing.WithRawKeysFor("group-members"))
	if err != nil {
		return nil, err
	}
	log := slog.New(tracing.LogHandler(nil)) // what the engine has to say, with trace ids
	return core.New(store, core.WithTTL(10*time.Second), core.WithHooks(hooks), core.WithLogger(log))
}

// Close lets go of everything. Call it when the handlers are done.
func (n *Node) Close() error {
	var errs []error
	if n.Locks != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		errs = append(errs, n.Locks.Close(ctx))
	}
	return errors.Join(append(errs, n.Redis.Close())...)
}

// Clean deletes what the fleet left in Redis. Call it when its processes have
// ended.
func (n *Node) Clean(ctx context.Context) error {
	// asynq keeps a list of the queues it has seen.
	if err := n.Redis.SRem(ctx, "asynq:queues", n.Queue()).Err(); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	keys := n.Redis.Scan(ctx, 0, "*"+n.Run+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := n.Redis.Del(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
