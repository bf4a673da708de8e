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

// server is a private server that can fall silent.
type server interface {
	Pause()
	Resume()
}

// otherStores are the stores besides Redis, with which the other tests run. A file has no server.
var otherStores = map[string]func(*testing.T) (store string, s server){
	"etcd": func(t *testing.T) (string, server) { s := etcdtest.Start(t); return "etcd://" + s.Addr(), s },
	"zk":   func(t *testing.T) (string, server) { s := zktest.Start(t); return "zk://" + s.Addr() + "/locks", s },
	"sqlite": func(t *testing.T) (string, server) {
		store := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
		command(t, "--store", store, "init").ends(0)
		return store, nil
	},
}

// On every store, a run holds its key for nobody else, an operator ends it, and once runs once. When the server
// falls silent, the program is dead before the next holder has the key.
func TestRunOnOtherStores(t *testing.T) {
	t.Parallel()
	for name, start := range otherStores {
		t.Run(name, func(t *testing.T) {
			if name != "sqlite" {
				servertest.Long(t)
			}
			t.Parallel()
			store, server := start(t)
			keyturn := func(status int, args ...string) *process {
				t.Helper()
				return command(t, append([]string{"--store", store, "--timeout=5s"}, args...)...).ends(status)
			}
			keyturn(75, "run", "a", "--", os.Args[0], "--store", store, "run", "a", "-n", "--", "sh", "-c",
				"echo in; KEYTURN_LEASES= exec "+os.Args[0]+" --store "+store+" run a -n -- true").says("in")
			keyturn(66, "show", "a")
			keyturn(0, "once", "b", "--", "echo", "first").says("first")
			keyturn(0, "once", "b", "--", "echo", "second").says("first")

			forced := command(t, "--store", store, "run", "c", shortTTL, "--grace=100ms", "--", "sh", "-c", "echo in; sleep 60").start()
			forced.says("in")
			keyturn(0, "force", "c", "--yes", "--reason", "test")
			forced.ends(76)
			if server == nil {
				return
			}

			file := filepath.Join(t.TempDir(), "beats")
			silent := command(t, append([]string{"--store", store, "--timeout=1s", "run", "d", shortTTL, "--"}, beat(file)...)...).start()
			await(t, "the program runs", exists(file))
			server.Pause()
			silent.ends(76) // asked first, unless the machine is so busy that it is too late for that
			server.Resume()
			wantDead(t, file, taken(t, engine(t, store), "d"))
		})
	}
}
