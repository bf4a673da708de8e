package main_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/trial"
)

// makeHistory makes one history, and shows what came of it.
func makeHistory(t *testing.T, c trial.Config) *trial.Report {
	t.Helper()
	servertest.Long(t)
	r, err := trial.Run(t.Context(), c)
	must(t, err)
	t.Log(r)
	return r
}

// TestHistories: whatever strikes, nothing is wrong that the guarantees do not admit. Longer ones:
// go run ./proof.
func TestHistories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]trial.Config{
		"single": {Topology: "single", Lasts: 15 * time.Second, Faults: []string{"all"}},
		// Against these a lease alone is enough, so registers need no fence.
		"single, alone":       {Topology: "single", Lasts: 15 * time.Second, Faults: []string{"alone"}},
		"sentinel":            {Topology: "sentinel", Lasts: 20 * time.Second, Faults: []string{"all"}},
		"sentinel, confirmed": {Topology: "sentinel", Lasts: 20 * time.Second, Faults: []string{"all"}, Confirmed: true},
		"cluster":             {Topology: "cluster", Lasts: 20 * time.Second, Faults: []string{"all"}},
		"redlock":             {Topology: "redlock", Lasts: 15 * time.Second, Faults: []string{"all"}},
		"postgres":            {Topology: "postgres", Lasts: 15 * time.Second, Faults: []string{"all"}},
		"etcd":                {Topology: "etcd", Lasts: 15 * time.Second, Faults: []string{"all"}},
		// Its restarts take seconds on a busy machine.
		"zookeeper": {Topology: "zookeeper", Lasts: 15 * time.Second, Faults: []string{"processes", "network", "freeze"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for tries := 1; ; tries++ {
				c.Seed = uint64(time.Now().UnixNano()) % 1e6
				r := makeHistory(t, c)
				if r.Wrong != nil {
					t.Fatalf("seed %d: %v\nthe history: %s", c.Seed, r.Wrong, r.Dir)
				}
				if r.Little == nil {
					return
				}
				if tries == 4 { // on a slow machine the faults leave little between them
					t.Fatalf("seed %d: %v", c.Seed, r.Little)
				}
			}
		})
	}
}

// TestControls: histories in which something must be lost. The checks that find nothing elsewhere
// find it here.
func TestControls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trial.Config
		shows func(r *trial.Report) bool
	}{
		// A register that compares no tokens, and a process that is stopped before it writes.
		"no fence": {
			trial.Config{Topology: "single", Faults: []string{"stop"}, Think: 50 * time.Millisecond, Plain: true},
			func(r *trial.Report) bool { return r.LostBare > 0 && r.LostFenced == 0 && r.Wrong == nil },
		},
		"eviction": {
			trial.Config{Topology: "single", Faults: []string{"evict"}},
			func(r *trial.Report) bool { return r.Wrong != nil },
		},
		// The last grants were on no replica when the master died.
		"failover without replicas": {
			trial.Config{Topology: "sentinel", Faults: []string{"behind"}, Strict: true},
			func(r *trial.Report) bool { return r.Wrong != nil },
		},
		"a database that forgets": {
			trial.Config{Topology: "postgres", Faults: []string{"forget"}, Strict: true},
			func(r *trial.Report) bool { return r.Wrong != nil },
		},
		"release by DEL": {
			trial.Config{Topology: "single", Faults: []string{"stop"}, System: "DEL", Think: 50 * time.Millisecond},
			func(r *trial.Report) bool { return r.Overlaps > 0 },
		},
		"redsync": {
			trial.Config{Topology: "single", Faults: []string{"stop", "empty"}, System: "redsync", Think: 50 * time.Millisecond},
			func(r *trial.Report) bool { return r.LostBare > 0 },
		},
		"redislock": {
			trial.Config{Topology: "single", Faults: []string{"stop", "empty"}, System: "redislock", Think: 50 * time.Millisecond},
			func(r *trial.Report) bool { return r.LostBare > 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.Lasts = 10 * time.Second
			for test.Seed = 1; ; test.Seed++ {
				r := makeHistory(t, test.Config)
				if test.shows(r) {
					return
				}
				if test.Seed == 10 { // what is lost depends on moments, so a single history may lose nothing
					t.Fatal("nothing shows in 10 histories")
				}
			}
		})
	}
}
