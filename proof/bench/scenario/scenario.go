// Package scenario has the scenarios: a table of them, and a file for those that are measured alike.
package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/proof/bench/lock"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// Scenario is one thing to measure, with each of some systems.
type Scenario struct {
	Name    string
	About   string
	Systems []string
	Once    bool   // one run is long and steady enough
	On      string // what to measure on, if not a server: [OnCluster], or a kind of database
	Measure func(ctx context.Context, p *place, system string) ([]stats.Sample, error)
}

// rungs are the numbers of goroutines of the ladder. Most real processes are on the lower ones.
var rungs = []int{1, 2, 4, 8, 16, 32, 64, 256}

// ladderSpan bounds the measurement of a rung. There are many rungs, and the neighbours show as
// well as a longer measurement whether a figure is an outlier.
const ladderSpan = time.Second

// Ladder returns the scenarios that measure uncontended locks with more and more goroutines, a
// key each.
func Ladder() []Scenario {
	var all []Scenario
	for _, n := range rungs {
		all = append(all, Scenario{
			Name: fmt.Sprintf("ladder-%d", n), About: fmt.Sprintf("goroutines with a key each: %d", n),
			Systems: lock.Libraries(), Measure: uncontended(n, 1, ladderSpan),
		})
	}
	return all
}

// All returns the scenarios on Redis, in the order in which they are shown.
func All() []Scenario {
	libraries := lock.Libraries()
	return append(Ladder(), []Scenario{
		{Name: "hot-1proc", About: "64 goroutines, one key, empty section", Systems: slices.Concat(libraries, lock.Mutexed()), Measure: hotOneProcess},
		{Name: "hot-4proc", About: "4 processes of 16 goroutines, one key, empty section", Systems: libraries, Measure: hotProcesses},
		{Name: "handover", About: "from release in one process to grant in another", Systems: libraries, Measure: handover},
		{Name: "held-100k", About: "100 000 leases kept alive", Systems: libraries, Once: true, Measure: held},
		{Name: "once-64", About: "64 goroutines execute once per key, then again", Systems: libraries, Measure: once},
		{Name: "cluster-64", About: "ladder-64 on a Cluster of 3 masters", Systems: libraries, On: OnCluster, Measure: uncontended(64, 1, ladderSpan)},
	}...)
}

// SQL returns the scenarios on databases: locks in them, and what package fence costs beside an UPDATE.
func SQL() []Scenario {
	var all []Scenario
	for _, kind := range []string{lock.Postgres, lock.MariaDB, lock.SQLite} {
		for _, n := range []int{1, 8} {
			// The rows of all keys are there when it is measured.
			all = append(all, Scenario{
				Name: fmt.Sprintf("%s-%d", kind, n), About: fmt.Sprintf("goroutines with keys of their own: %d", n),
				Systems: lock.Ways(kind), On: kind, Measure: uncontended(n, 16, time.Hour),
			})
		}
	}
	const pg = lock.Postgres
	return append(all,
		Scenario{Name: pg + "-handover", About: "from release in one process to grant in another", Systems: lock.Ways(pg), On: pg, Measure: handover},
		Scenario{Name: pg + "-fence", About: "an UPDATE in a transaction, and what package fence adds", Systems: []string{"check", "claim", "mark", "update"}, On: pg, Measure: fenced},
	)
}

// Pick returns the scenarios with some names and only some of their systems, both separated by
// commas; "": all. Scenarios that have none of the systems are left out.
func Pick(all []Scenario, names, systems string) ([]Scenario, error) {
	var picked []Scenario
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
		s.Systems = slices.DeleteFunc(slices.Clone(s.Systems), func(name string) bool { return !listed(systems, name) })
		if listed(names, s.Name) && len(s.Systems) > 0 {
			picked = append(picked, s)
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		if names != "" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("no scenario is named %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	if len(picked) == 0 {
		return nil, fmt.Errorf("no scenario has a system named %q", systems)
	}
	return picked, nil
}

func listed(names, name string) bool {
	return names == "" || slices.Contains(strings.Split(names, ","), name)
}
