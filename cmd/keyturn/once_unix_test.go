//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
)

// once runs a program once, and replays its output and status.
func TestOnce(t *testing.T) {
	store := onRedis(t)
	runs := filepath.Join(t.TempDir(), "runs")
	once := func(status int, key, script string, flags ...string) *process {
		t.Helper()
		args := append([]string{"--store", store, "once", key}, flags...)
		return command(t, append(args, "--", "sh", "-c", "echo run >> "+runs+"; "+script)...).ends(status)
	}
	count := func() int {
		text, _ := os.ReadFile(runs)
		_ = os.Remove(runs)
		return strings.Count(string(text), "run")
	}
	first, second := once(0, "a", `echo "out $KEYTURN_KEY"; echo err >&2`), once(0, "a", "echo other")
	check(t, first.stdout.String() == "out a\n" && second.stdout.String() == "out a\n" && strings.Contains(second.stderr.String(), "on record") && count() == 1, "%q, %q, %q", first.stdout.String(), second.stdout.String(), second.stderr.String())

	// A failure is recorded only if that is asked for, a death by a signal never.
	once(3, "b", "exit 3")
	once(3, "b", "echo x; exit 3", "--record-failures")
	p := once(3, "b", "exit 4", "-q")
	check(t, p.stdout.String() == "x\n" && p.stderr.String() == "" && count() == 2, "%q, %q", p.stdout.String(), p.stderr.String())
	once(128+9, "c", "kill -9 $$", "--record-failures")
	once(0, "c", "true")
	if n := count(); n != 2 {
		t.Errorf("%d runs", n)
	}

	// All of a long output is passed on, and the record has its beginning.
	long := once(0, "d", "head -c 200000 /dev/zero | tr '\\0' x")
	replayed := once(0, "d", "true")
	check(t, len(long.stdout.String()) == 200000 && len(replayed.stdout.String()) == 64<<10 && strings.Contains(replayed.stderr.String(), "65536 bytes"), "%d, %d bytes, %q", len(long.stdout.String()), len(replayed.stdout.String()), replayed.stderr.String())

	// After forget it runs again.
	count()
	command(t, "--store", store, "forget", "a", "--reason", "again").ends(0)
	check(t, once(0, "a", "echo new").stdout.String() == "new\n" && count() == 1, "it did not run")
	command(t, "--store", store, "once", "a", "b", "--", "true").ends(64)
	command(t, "--store", store, "once", "e", "--", "nosuchprogram").ends(127)
}

// Two that come at once run it once, and both get its output.
func TestOnceAtOnce(t *testing.T) {
	store := onRedis(t)
	a := command(t, "--store", store, "once", "k", "--", "sh", "-c", "echo $$; read x; exit 0")
	stdin := a.typed()
	a.says("\n")
	b := command(t, "--store", store, "once", "k", "--", "sh", "-c", "echo $$").start()
	command(t, "--store", store, "once", "k", "-n", "--", "true").ends(75)
	_ = stdin.Close()
	a.ends(0)
	b.ends(0)
	check(t, a.stdout.String() != "" && a.stdout.String() == b.stdout.String(), "%q, %q", a.stdout.String(), b.stdout.String())
}

// An execution within a run or an execution of the same key would wait for itself for ever. It is refused at once, as
// the engine does it; with another key it runs.
func TestOnceWithinItsOwnKey(t *testing.T) {
	servertest.Long(t)
	store := onRedis(t)
	for _, outer := range []string{"run", "once"} {
		inner := []string{os.Args[0], "--store", store, "once"}
		command(t, append([]string{"--store", store, outer, "k", "--"}, append(inner, "k", "--", "echo", "ran")...)...).ends(64).says("holds \"k\"")
		command(t, append([]string{"--store", store, outer, "k", "--"}, append(inner, "other-"+outer, "--", "echo", "ran")...)...).ends(0).says("ran")
	}
}

// An execution that lost its lease is stopped, and not on record.
func TestOnceForced(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "once", "k", shortTTL, "--record-failures", "--", "sh", "-c", "echo in; sleep 60").start()
	p.says("in")
	must(t, checktest.ErrorOf(engine(t, store).ForceRelease(t.Context(), "k", "test")))
	p.ends(76)
	command(t, "--store", store, "show", "k").ends(66)
}

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
