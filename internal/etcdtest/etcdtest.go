//go:build unix

// Package etcdtest gives tests etcd servers as processes of their own: the program etcd of the system,
// alone or as a cluster. Their elections take 0.1 s, so the shortest lease is a second.
package etcdtest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Server is a running member. It keeps its data over a Restart, unless Forget was called.
type Server struct {
	*servertest.Server
	data string
	peer string // its address for other members
}

// Start runs an etcd until the test and its subtests end, with further flags. The test fails at once
// if the program is missing or does not start.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	return Cluster(t, 1, flags...)[0]
}

// Cluster runs an etcd of several members.
func Cluster(t testing.TB, members int, flags ...string) []*Server {
	t.Helper()
	return run(t, peersOf(t, members), flags)
}

// peer is how members reach a member.
type peer struct{ listens, told string }

// peersOf finds addresses for so many members, which have no network between them.
func peersOf(t testing.TB, members int) []peer {
	t.Helper()
	var all []peer
	for range members {
		port, err := servertest.FreePort()
		if err != nil {
			t.Fatalf("etcdtest: no free port: %v", err)
		}
		url := fmt.Sprintf("http://127.0.0.1:%d", port)
		all = append(all, peer{url, url})
	}
	return all
}

func run(t testing.TB, peers []peer, flags []string) []*Server {
	t.Helper()
	bin, err := servertest.LookPath([]string{"etcd"}, "/usr/sbin")
	if err != nil {
		t.Fatalf("etcdtest: %v", err)
	}
	var cluster []string
	for i, p := range peers {
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, p.told))
	}
	// A member that is alone elects itself again when the machine was busy for so long, and 3.4 then forgets who
	// was reading: such a reader waits for 7 s. With more than 667 ms, a lease of one second would get two.
	election := "100"
	if len(peers) == 1 {
		election = "600"
	}
	servers := make([]*Server, len(peers))
	for i, p := range peers {
		servers[i] = &Server{data: filepath.Join(tempDir(t), "data"), peer: p.told}
		servers[i].Server = servertest.Start(t, servertest.Program{
			// It serves clients when most of the members run.
			Ready: "now serving peer",
			Command: func(port int) *exec.Cmd {
				url := fmt.Sprintf("http://127.0.0.1:%d", port)
				return exec.Command(bin, append([]string{
					"--name", fmt.Sprintf("m%d", i), "--data-dir", servers[i].data, "--logger", "zap", "--log-outputs", "stderr",
					"--listen-client-urls", url, "--advertise-client-urls", url,
					"--listen-peer-urls", p.listens, "--initial-advertise-peer-urls", p.told,
					"--initial-cluster", strings.Join(cluster, ","), "--heartbeat-interval", "10", "--election-timeout", election,
				}, flags...)...)
			},
		})
	}
	for _, s := range servers {
		s.await(t)
	}
	return servers
}

// await waits until the member serves clients.
func (s *Server) await(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r, err := http.Get("http://" + s.Addr() + "/health")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("etcdtest: not ready: %v\n%s", err, s.Log())
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Restart kills the member and starts it again, with its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Server.Restart(t)
	s.await(t)
}

// Pause stops the member, and returns when none of its threads runs any more.
func (s *Server) Pause() {
	s.Server.Pause()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID()))
		if !slices.ContainsFunc(threads, runs) {
			return
		}
	}
}

// runs reports whether a thread is not stopped. Its state stands behind its name in parentheses.
func runs(stat string) bool {
	text, err := os.ReadFile(stat)
	_, rest, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(rest, "T")
}

// Forget restarts the member without its data.
func (s *Server) Forget(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatalf("etcdtest: %v", err)
	}
	s.Restart(t)
}

// Backup makes a snapshot of what the member has (etcdctl snapshot save), and returns its file.
func (s *Server) Backup(t testing.TB) string {
	t.Helper()
	file := filepath.Join(tempDir(t), "snapshot")
	etcdctl(t, "--endpoints", s.Addr(), "snapshot", "save", file)
	return file
}

// Restore restarts a member that is alone with what it had when the snapshot was made (etcdctl snapshot
// restore).
func (s *Server) Restore(t testing.TB, file string) {
	t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatalf("etcdtest: %v", err)
	}
	etcdctl(t, "snapshot", "restore", file, "--name", "m0", "--data-dir", s.data, "--initial-cluster", "m0="+s.peer, "--initial-advertise-peer-urls", s.peer)
	s.Restart(t)
}

// Protect has a server ask for passwords, which are "secret". It makes the user root, and the user program,
// which may do what a store needs and nothing else.
func Protect(t testing.TB, addr string) {
	t.Helper()
	for _, command := range []string{
		"role add locks", "role grant-permission locks readwrite --prefix keyturn/",
		"user add program:secret", "user grant-role program locks", "user add root:secret", "user grant-role root root", "auth enable",
	} {
		etcdctl(t, append([]string{"--endpoints", addr}, strings.Fields(command)...)...)
	}
}

func etcdctl(t testing.TB, args ...string) {
	t.Helper()
	bin, err := servertest.LookPath([]string{"etcdctl"})
	if err != nil {
		t.Fatalf("etcdtest: %v", err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("etcdtest: etcdctl %v: %v\n%s", args, err, out)
	}
}

// tempDir returns a directory for a member's data. In memory, if possible: etcd waits for the disk at
// every write, and a busy disk would make each test slow.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "etcdtest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
