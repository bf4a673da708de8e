// Package lock puts keyturn and the libraries that it is compared with behind one interface.
// Each is set up as its own documentation and a few trials on this benchmark recommend. A file
// per library says how.
package lock

import (
	"context"
	"fmt"
	"strings"
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

// Config is what a scenario needs of a library.
type Config struct {
	Addrs   []string      // one server, or some nodes of a Cluster
	Callers int           // roughly how many goroutines use it at once
	TTL     time.Duration // of each lock, in case its holder dies
	Renew   bool          // sections may outlast the TTL
	Sent    *Counter      // counts the commands sent; nil: not counted
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

// Mutexed returns the names of all peers behind a mutex.
func Mutexed() []string {
	var names []string
	for _, s := range Systems()[1:] {
		names = append(names, s.Name+mutexSuffix)
	}
	return names
}

// Open opens the system of that name. Behind the name of a peer "+mutex" puts it behind a
// mutex of this process for each key.
func Open(name string, cfg Config) (Locker, error) {
	if peer, ok := strings.CutSuffix(name, mutexSuffix); ok {
		return openMutexed(peer, cfg)
	}
	for _, s := range Systems() {
		if s.Name == name {
			return s.Open(cfg)
		}
	}
	return nil, fmt.Errorf("no system is named %q", name)
}
