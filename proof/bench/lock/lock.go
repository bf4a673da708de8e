// Package lock puts keyturn, and the libraries and statements that it is compared with, behind one
// type. Each is set up as its own documentation and a few trials on this benchmark recommend. A
// file per library says how.
package lock

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Locker is a lock library as one process of a service uses it. It is safe for concurrent use.
type Locker struct {
	// Lock waits until it holds key, for as long as ctx allows.
	Lock func(ctx context.Context, key string) (Unlock, error)
	// Once runs fn unless it ran before for this key, here or anywhere; nil: not measured.
	Once  func(ctx context.Context, key string, fn func()) error
	Close func() error
}

// Unlock releases what was locked, once.
type Unlock func(ctx context.Context) error

// Config is what a scenario needs of a library.
type Config struct {
	System   string
	Addrs    []string      // one server, or some nodes of a Cluster
	Database *Database     // where the system locks instead; nil: on a server
	Callers  int           // roughly how many goroutines use it at once
	TTL      time.Duration // of each lock, in case its holder dies
	Renew    bool          // sections may outlast the TTL
}

var libraries = []struct {
	name string
	open func(Config) (*Locker, error)
}{
	{"keyturn", openKeyturn},
	{"redislock", openRedislock},
	{"redsync", openRedsync},
	{"rueidislock", openRueidislock},
}

// Libraries returns the names of the libraries for Redis, keyturn first.
func Libraries() []string {
	var names []string
	for _, l := range libraries {
		names = append(names, l.name)
	}
	return names
}

// Open opens the configured system. Behind the name of a library "+mutex" puts it behind a mutex
// of this process for each key.
func Open(ctx context.Context, cfg Config) (*Locker, error) {
	if cfg.Database != nil {
		return openDatabase(ctx, cfg)
	}
	name, mutexed := strings.CutSuffix(cfg.System, mutexSuffix)
	for _, library := range libraries {
		if library.name != name {
			continue
		}
		l, err := library.open(cfg)
		if err == nil && mutexed {
			behindMutex(l)
		}
		return l, err
	}
	return nil, fmt.Errorf("no system is named %q", cfg.System)
}
