package etcdstore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
)

// TestRevokedWaiter is etcd-io/etcd#11456: the lease of a waiter runs out, and the waiter gets the
// lock all the same, together with the next one. Here the waiter asks anew, behind the others.
func TestRevokedWaiter(t *testing.T) {
	t.Parallel()
	c := shared(t)
	a, b := open(t, c), open(t, c)
	h := hold(t, a, request("k", 10*time.Second))
	first := enqueue(t, a, request("k", 10*time.Second))
	second := enqueue(t, b, request("k", 10*time.Second))
	_, lease := stored(t, c, "k", first.Owner)
	must(t, checktest.ErrorOf(c.Revoke(t.Context(), lease)))
	release(t, a, h)
	g := second.Granted()
	first.Waits()
	release(t, b, g)
	first.Granted()
}

// TestRevokedWaiterOfEtcd is the control: etcd's own mutex, in the version of that time, fails.
func TestRevokedWaiterOfEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles another client of etcd")
	}
	t.Parallel()
	// It is a module of its own: this client needs a version of grpc that is too old for the store.
	dir := t.TempDir()
	for name, file := range map[string]string{"main.go": "main.go", "go.mod": "mod.txt", "go.sum": "sum.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata/oldmutextest", file))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	program := filepath.Join(dir, "oldmutex")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, etcdtest.Start(t).Addr()).Output()
	check(t, err == nil && string(out) == "2", "%s hold etcd's mutex, %v; this test should show that two do", out, err)
}
