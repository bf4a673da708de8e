//go:build unix

package redistest

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// KeepData are arguments of [Start] for a server that keeps its data over a
// [servertest.Server.Restart]. Each write is then on disk before it is answered.
var KeepData = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Server is a running Redis or Valkey server that only this test uses. It listens on the
// loopback interface. Without [KeepData] it writes nothing to disk, so a restart loses the data.
//
// Its methods are meant for one goroutine at a time.
type Server struct {
	*servertest.Server
	t    testing.TB // the one of Start; what lives as long as the server is cleaned up with it
	more []string   // further arguments, for a restart
	db   int        // of clients
}

// Database returns the server as a test sees it that has the database number n to itself: its clients and redis-cli use
// that one, and end with t. Its settings, users, scripts, counts and connections are still those of the whole server.
func (s *Server) Database(t testing.TB, n int) *Server {
	return &Server{Server: s.Server, t: t, db: n}
}

// Start runs a server until the test and its subtests end. args are added to the command line,
// for instance "--maxmemory", "10mb".
//
// The test fails at once if neither redis-server nor valkey-server is on PATH, or if the server
// does not start.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, "", "Ready to accept connections", args, nil)
}

// start runs a server with the configuration file conf, or "". The server accepts connections
// once it has printed ready. env is what it finds in its environment, besides what this process
// has.
func start(t testing.TB, conf, ready string, args, env []string) *Server {
	t.Helper()
	bin, err := servertest.LookPath([]string{"redis-server", "valkey-server"})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	args = append([]string{
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--dir", t.TempDir(),
	}, args...)
	s := &Server{t: t}
	command := func(port int) *exec.Cmd {
		all := slices.Concat([]string{"--port", strconv.Itoa(port)}, args, s.more)
		if conf != "" {
			all = append([]string{conf}, all...)
		}
		cmd := exec.Command(bin, all...)
		if env != nil {
			cmd.Env = append(os.Environ(), env...)
		}
		return cmd
	}
	s.Server = servertest.Start(t, servertest.Program{Command: command, Ready: ready})
	return s
}
