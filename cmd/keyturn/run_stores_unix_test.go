//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// otherStores are the stores besides Redis, with which the other tests run.
var otherStores = map[string]func(*testing.T) (store string){
	"etcd": func(t *testing.T) string { return "etcd://" + etcdtest.Start(t).Addr() },
	"zk":   func(t *testing.T) string { return "zk://" + zktest.Start(t).Addr() + "/locks" },
	"sqlite": func(t *testing.T) string {
		store := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
		command(t, "--store", store, "init").ends(0)
		return store
	},
}

// On every store, a run holds its key for nobody else, an operator ends it, and once runs once. How a run ends when
// its store falls silent is the engine's, and alike on all.
func TestRunOnOtherStores(t *testing.T) {
	t.Parallel()
	for name, start := range otherStores {
		t.Run(name, func(t *testing.T) {
			if name != "sqlite" {
				servertest.Long(t)
			}
			t.Parallel()
			store := start(t)
			keyturn := func(status int, args ...string) *process {
				t.Helper()
				return command(t, append([]string{"--store", store, "--timeout=5s"}, args...)...).ends(status)
			}
			keyturn(75, "run", "a", "--", os.Args[0], "--store", store, "run", "a", "-n", "--", "sh", "-c",
				"echo in; KEYTURN_LEASES= exec "+os.Args[0]+" --store "+store+" run a -n -- true").says("in")
			keyturn(66, "show", "a")
			for _, text := range []string{"first", "second"} {
				keyturn(0, "once", "b", "--", "echo", text).says("first")
			}
			forced := command(t, "--store", store, "run", "c", shortTTL, "--grace=100ms", "--", "sh", "-c", "echo in; sleep 60").start()
			forced.says("in")
			keyturn(0, "force", "c", "--yes", "--reason", "test")
			forced.ends(76)
		})
	}
}
