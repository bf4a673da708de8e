// Package node has what all processes of the fleet share: their place in Redis, and the lock
// engine.
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
	// Run names the fleet. All its keys in Redis contain Run. So several runs do not affect
	// each other, and their keys can be told from other data.
	Run string
	// Guarded turns the locks on.
	Guarded bool
}

// Queue is the asynq queue between gateways and services.
func (c Config) Queue() string { return c.Run }

// Node is one process's connection and engine. Close it.
type Node struct {
	Config
	Redis *redis.Client
	DB    *db.DB
	Locks *core.Engine // nil: this fleet runs without keyturn

	data *redis.Client // of the DB
}

// Open makes a node.
func Open(cfg Config) (*Node, error) {
	opts, err := redis.ParseURL(cfg.RedisURL)
	if err != nil {
		return nil, errors.New("the Redis URL can't be read") // the error must not repeat the URL, which may have a password
	}
	once := *opts
	once.MaxRetries = -1 // a row whose insert was repeated after a lost answer would be there twice
	n := &Node{Config: cfg, Redis: redis.NewClient(opts), data: redis.NewClient(&once)}
	n.DB = db.New(n.data, cfg.Run+":db:")
	if cfg.Guarded {
		if n.Locks, err = newEngine(n.Redis, cfg.Run+":lock:"); err != nil {
			return nil, errors.Join(err, n.closeClients())
		}
	}
	return n, nil
}

// newEngine is all that a program needs for locks that every process sees. The prefix keeps runs
// apart; a program that has Redis to itself needs none.
func newEngine(client *redis.Client, prefix string) (*core.Engine, error) {
	store, err := redisstore.New(client, redisstore.WithPrefix(prefix))
	if err != nil {
		return nil, err
	}
	// Without an OpenTelemetry SDK in the program, this costs nothing. A group's key names no
	// person, so it may be shown.
	hooks, err := tracing.New(tracing.WithRawKeysFor("group-members"))
	if err != nil {
		return nil, err
	}
	log := slog.New(tracing.LogHandler(nil)) // the engine's log lines get trace ids
	return core.New(store, core.WithTTL(10*time.Second), core.WithHooks(hooks), core.WithLogger(log))
}

// Close closes everything. Call it when the handlers have finished.
func (n *Node) Close() error {
	var errs []error
	if n.Locks != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		errs = append(errs, n.Locks.Close(ctx))
	}
	return errors.Join(append(errs, n.closeClients())...)
}

func (n *Node) closeClients() error { return errors.Join(n.Redis.Close(), n.data.Close()) }

// Clean deletes what the fleet left in Redis. Call it when its processes have ended.
func (n *Node) Clean(ctx context.Context) error {
	// asynq keeps a list of the queues it has seen.
	err := n.Redis.SRem(ctx, "asynq:queues", n.Queue()).Err()
	keys := n.Redis.Scan(ctx, 0, "*"+n.Run+"*", 1000).Iterator()
	for err == nil && keys.Next(ctx) {
		err = n.Redis.Del(ctx, keys.Val()).Err()
	}
	if err = errors.Join(err, keys.Err()); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
