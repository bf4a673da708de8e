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
	Nodes   bool // on five independent servers instead of one
	Faults  bool // of which one is dead and one answers late
	Measure func(ctx context.Context, env *Env, system string) ([]stats.Sample, error)
}

// Env is where a scenario runs.
type Env struct {
	Addrs []string // of the server, or of a Cluster's masters
	Size  Size
	// Cluster starts a Cluster, and returns its masters. It is called once, by
	// the first scenario that needs one.
	Cluster func() ([]string, error)

	// Nodes starts five independent servers, and returns their addresses; also those of a network
	// in which one of them is dead and one is slow. It is called once.
	Nodes func() (nodes, faulty []string, err error)

	// Database makes an empty database of a kind, and starts its server if need be. drop ends it.
	Database func(kind string) (d *sqltest.Database, drop func() error, err error)

	masters []string // what Cluster returned
	nodes   []string // what Nodes returned
	faulty  []string
	apart   bool              // the servers are Nodes
	best    map[question]form // the fastest form for each limit
}

// The rows of what the server can do without a library.
const (
	Limit   = "limit"         // with a command for each operation
	Grouped = "limit-grouped" // with many operations in one command
)

// All returns the scenarios, in the order in which they are shown.
func All() []Scenario {
	lockers := lockerNames()
	quorums := []string{"keyturn", "redsync"}
	withLimit := append(lockerNames(), Limit)
	return []Scenario{
		{Name: "uncontended-1", About: "1 goroutine, its own key", Systems: withLimit, Measure: uncontended(1, Full.Span)},
		{Name: "uncontended-64", About: "64 goroutines, a key each", Systems: append(lockerNames(), Limit, Grouped), Measure: uncontended(64, Full.Span)},
		{Name: "uncontended-512", About: "512 goroutines, a key each", Systems: append(lockerNames(), Limit, Grouped), Measure: uncontended(512, Full.Span)},
		{Name: "hot-1proc", About: "64 goroutines, one key, empty section", Systems: slices.Concat(lockers, lock.Mutexed(), []string{Limit}), Measure: hotOneProcess},
		{Name: "hot-4proc", About: "4 processes of 16 goroutines, one key, empty section", Systems: withLimit, Measure: hotProcesses},
		{Name: "sticky-1", About: "1 goroutine asks for the same 16 keys again and again", Systems: lockers, Measure: sticky(1)},
		{Name: "sticky-64", About: "64 goroutines, 16 keys each, again and again", Systems: lockers, Measure: sticky(64)},
		{Name: "handover", About: "from release in one process to grant in another", Systems: withLimit, Measure: handover},
		{Name: "held-100k", About: "100 000 leases kept alive", Systems: lockers, Once: true, Measure: held},
		{Name: "idle-waiters", About: "10 000 waiters on 100 keys that stay held", Systems: lockers, Once: true, Measure: idleWaiters},
		{Name: "once-64", About: "64 goroutines execute once per key, then again", Systems: lockers, Measure: once},
		{Name: "once-500", About: "batches of 500 messages, half of them repeated", Systems: batchWays, Measure: batches},
		{Name: "cluster-64", About: "uncontended-64 on a Cluster of 3 masters", Systems: lockers, Cluster: true, Measure: uncontended(64, Full.Span)},
		{Name: "nodes-64", About: "uncontended-64 on 5 independent servers", Systems: quorums, Nodes: true, Measure: uncontended(64, Full.Span)},
		{Name: "nodes-hot", About: "hot-4proc on 5 independent servers", Systems: quorums, Nodes: true, Measure: hotProcesses},
		{Name: "nodes-faults-1", About: "uncontended-1 on 5, of which 1 is dead and 1 answers 20 ms late", Systems: quorums, Nodes: true, Faults: true, Measure: uncontended(1, Full.Span)},
		{Name: "nodes-faults-64", About: "uncontended-64 on the same", Systems: quorums, Nodes: true, Faults: true, Measure: uncontended(64, Full.Span)},
		{Name: "grpc", About: "what a rule adds to a gRPC call", Systems: []string{"memstore", "redis"}, Measure: grpcCalls},
		{Name: "echo", About: "what a rule adds to an Echo request", Systems: []string{"memstore", "redis"}, Measure: echoRequests},
		{Name: "asynq", About: "what a rule adds to an asynq task", Systems: []string{"memstore", "redis", "none"}, Once: true, Measure: asynqTasks},
	}
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

// onNodes is e for a scenario on independent servers.
func (e *Env) onNodes(faults bool) (*Env, error) {
	if e.nodes == nil {
		var err error
		if e.nodes, e.faulty, err = e.Nodes(); err != nil {
			return nil, err
		}
	}
	n := &Env{Addrs: e.nodes, Size: e.Size, nodes: e.nodes, apart: true}
	if faults {
		n.Addrs = e.faulty
	}
	return n, nil
}

// reset empties the server, so that no run pays for what another one left.
func (e *Env) reset(ctx context.Context) error {
	for _, addr := range e.servers() {
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

// servers are the addresses of all servers, also of the one that the systems can't reach.
func (e *Env) servers() []string {
	if e.apart {
		return e.nodes
	}
	return e.Addrs
}

// open opens a system for so many callers on an empty server.
func (e *Env) open(ctx context.Context, system string, callers int) (lock.Locker, error) {
	return e.openWith(ctx, system, callers, func(*lock.Config) {})
}

// openWith is open with a change of the configuration.
func (e *Env) openWith(ctx context.Context, system string, callers int, change func(*lock.Config)) (lock.Locker, error) {
	if err := e.reset(ctx); err != nil {
		return nil, err
	}
	cfg := e.config(callers)
	change(&cfg)
	return lock.Open(system, cfg)
}

func (e *Env) config(callers int) lock.Config {
	return lock.Config{Addrs: e.Addrs, Nodes: e.apart, Callers: callers, TTL: 30 * time.Second}
}

// perSecond, and the others below, name the units.
func perSecond(what string, n uint64, span time.Duration) stats.Sample {
	return stats.Sample{Unit: what + "/s", Value: float64(n) / span.Seconds()}
}

func micros(what string, d time.Duration) stats.Sample {
	return stats.Sample{Unit: what + " µs", Value: float64(d) / float64(time.Microsecond)}
}
