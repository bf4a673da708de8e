package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/member"
)

// bed is the servers that a history is about.
type bed interface {
	// attach says how the process in a place reaches the servers.
	attach(p *member.Process, place int)
	faults() []fault
	// parts is how many parts fail apart, and part which one has a key.
	parts() int
	part(key string) int
	// probe asks a part, as a client would, whether it takes writes now.
	probe(ctx context.Context, part int) error
	// leftovers returns what is there at the end although nothing is held.
	leftovers(ctx context.Context) ([]string, error)
}

// whole is embedded in beds that fail as a whole.
type whole struct{}

func (whole) parts() int      { return 1 }
func (whole) part(string) int { return 0 }

// beds makes the servers of each topology, for so many processes.
var beds = map[string]func(t *redistest.Run, c Config) bed{
	"single":    newSingle,
	"postgres":  newPostgres,
	"etcd":      newEtcd,
	"zookeeper": newZooKeeper,
	"sentinel":  newSentinel,
	"cluster":   newCluster,
	"redlock":   newIndependent,
}

// Topologies returns what servers there can be.
func Topologies() []string { return slices.Sorted(maps.Keys(beds)) }

// probeTimeout is what a server that is well never takes.
const probeTimeout = 250 * time.Millisecond

// prober makes a client that finds out soon whether a server serves.
func prober(addr string) *redis.Client { return redis.NewClient(impatient(addr)) }

// impatient are the options of a client that probes.
func impatient(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, DialTimeout: probeTimeout, ReadTimeout: probeTimeout, WriteTimeout: probeTimeout, MaxRetries: -1, PoolSize: 1,
	}
}

// probeKey is no lock's.
const probeKey = "probe"

// takes asks whether a server takes a write, and has so many replicas that confirm it.
func takes(ctx context.Context, client *redis.Client, key string, replicas int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	pipe := client.Pipeline()
	set := pipe.Set(ctx, key, "1", time.Second)
	var confirmed *redis.Cmd
	if replicas > 0 {
		confirmed = pipe.Do(ctx, "wait", replicas, (probeTimeout / 2).Milliseconds())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if replicas > 0 {
		if n, err := confirmed.Int(); err != nil || n < replicas {
			return errors.New("too few replicas")
		}
	}
	return set.Err()
}

// stays are the kinds of keys that are there when nothing is held: counters, reasons of forced
// releases, records. Of redlock: since when a node votes, and lines, for 30 s after the last question.
var stays = []string{"}:token", "}:t", "}:f", "}:r", "}:born", "}:line"}

// leftovers returns what is there although nothing is held.
func leftovers(ctx context.Context, servers []*redistest.Server) ([]string, error) {
	var left []string
	for _, server := range servers {
		keys, err := server.Client().Keys(ctx, "*").Result()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			known := func(end string) bool { return strings.HasSuffix(key, end) }
			if !strings.HasPrefix(key, probeKey) && !slices.ContainsFunc(stays, known) {
				left = append(left, fmt.Sprintf("%s of %s", key, server.Addr()))
			}
		}
	}
	return left, nil
}

// flushScripts is a fault of every topology: the servers forget their scripts, again and again.
func flushScripts(servers func() []*redistest.Server) fault {
	return fault{name: "flush", lane: "servers", strike: func(s *stroke) {
		s.place = "all servers"
		for range 20 {
			for _, server := range servers() {
				_ = server.Client().ScriptFlush(s.ctx).Err() // one that is down has forgotten them anyway
			}
			s.lasts(20*time.Millisecond, 80*time.Millisecond)
		}
	}}
}
