// Package lock puts keyturn and the libraries that it is measured against
// behind one interface, each set up as its own documentation and a few trials
// on this benchmark recommend. A file per library says how.
package lock

import (
	"context"
	"fmt"
	"time"
)

// Locker is a lock library as one process of a service uses it. It is safe for
// concurrent use.
type Locker interface {
	// Lock waits until it holds key, for as long as ctx allows.
	Lock(ctx context.Context, key string) (Unlock, error)
	// Once runs fn unless it ran before for this key, here or anywhere.
	Once(ctx context.Context, key string, fn func()) error
	Close() error
}

// Unlock releases what was locked, once.
type Unlock func(ctx context.Context) error

// Config is what a scenario asks of a library.
type Config struct {
	Addrs   []string      // one server, or some of a Cluster
	Callers int           // how many goroutines use it at once, roughly
	TTL     time.Duration // of each lock, should its holder die
	Renew   bool          // sections may outlast the TTL
	Idle    bool          // waiters are there to wait, not to get the key soon
	Sent    *Counter      // counts the commands sent; nil: nobody counts
}

// System is a library that is measured.
type System struct {
	Name string
	Open func(Config) (Locker, error)
}

// Systems returns them all, keyturn first.
func Systems() []System {
	return []System{
		{"keyturn", openKeyturn},
		{"redislock", openRedislock},
		{"redsync", openRedsync},
		{"rueidislock", openRueidislock},
	}
}

// Open opens the system of that name.
func Open(name string, cfg Config) (Locker, error) {
	for _, s := range Systems() {
		if s.Name == name {
			return s.Open(cfg)
		}
	}
	return nil, fmt.Errorf("no system is named %q", name)
}
