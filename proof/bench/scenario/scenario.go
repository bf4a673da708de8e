// Package scenario has the scenarios: a file for each, or for a few that differ in a number.
package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

// Scenario is one thing to measure, with each of some systems.
type Scenario struct {
	Name    string
	About   string
	Systems []string
	Once    bool // one run is long and steady enough
	Cluster bool // on a Cluster instead of a server
	Measure func(ctx context.Context, env *Env, system string) ([]stats.Sample, error)
}

// Env is where a scenario runs.
type Env struct {
	Addrs []string // of the server, or of a Cluster's masters
	Size  Size
	// Cluster starts a Cluster, and returns its masters. It is called once, by
	// the first scenario that needs one.
	Cluster func() ([]string, error)

	// Database makes an empty database of a kind, and starts its server if need be. drop ends it.
	Database func(kind string) (d *sqltest.Database, drop func() error, err error)

	masters []string // what Cluster returned
}

// All returns the scenarios, in the order in which they are shown.
func All() []Scenario {
	lockers := lockerNames()
	return append(Ladder(), []Scenario{
		{Name: "hot-1proc", About: "64 goroutines, one key, empty section", Systems: slices.Concat(lockers, lock.Mutexed()), Measure: hotOneProcess},
		{Name: "hot-4proc", About: "4 processes of 16 goroutines, one key, empty section", Systems: lockers, Measure: hotProcesses},
		{Name: "handover", About: "from release in one process to grant in another", Systems: lockers, Measure: handover},
		{Name: "held-100k", About: "100 000 leases kept alive", Systems: lockers, Once: true, Measure: held},
		{Name: "once-64", About: "64 goroutines execute once per key, then again", Systems: lockers, Measure: once},
		{Name: "cluster-64", About: "ladder-64 on a Cluster of 3 masters", Systems: lockers, Cluster: true, Measure: uncontended(64)},
		{Name: "grpc", About: "what a rule adds to a gRPC call", Systems: []string{"memstore", "redis"}, Measure: grpcCalls},
		{Name: "echo", About: "what a rule adds to an Echo request", Systems: []string{"memstore", "redis"}, Measure: echoRequests},
		{Name: "asynq", About: "what a rule adds to an asynq task", Systems: []string{"memstore", "redis", "none"}, Once: true, Measure: asynqTasks},
	}...)
}

func lockerNames() []string {
	var names []string
	for _, s := range lock.Systems() {
		names = append(names, s.Name)
	}
	return names
}

// onCluster is e for a scenario on a Cluster.
func (e *Env) onCluster() (*Env, error) {
	if e.masters == nil {
		masters, err := e.Cluster()
		if err != nil {
			return nil, err
		}
		e.masters = masters
	}
	return &Env{Addrs: e.masters, Size: e.Size}, nil
}

// reset empties the server, so that no run pays for what another one left.
func (e *Env) reset(ctx context.Context) error {
	for _, addr := range e.Addrs {
		client := redis.NewClient(&redis.Options{Addr: addr})
		err := client.FlushAll(ctx).Err()
		if closing := client.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return fmt.Errorf("empty the server: %w", err)
		}
	}
	return nil
}

// open opens a system for so many callers on an empty server.
func (e *Env) open(ctx context.Context, system string, callers int) (lock.Locker, error) {
	if err := e.reset(ctx); err != nil {
		return nil, err
	}
	return lock.Open(system, e.config(callers))
}

func (e *Env) config(callers int) lock.Config {
	return lock.Config{Addrs: e.Addrs, Callers: callers, TTL: 30 * time.Second}
}

// perSecond, and the others below, name the units.
func perSecond(what string, n uint64, span time.Duration) stats.Sample {
	return stats.Sample{Unit: what + "/s", Value: float64(n) / span.Seconds()}
}

func micros(what string, d time.Duration) stats.Sample {
	return stats.Sample{Unit: what + " µs", Value: float64(d) / float64(time.Microsecond)}
}
