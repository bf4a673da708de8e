//go:build unix

package zktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Tick is the servers' unit of time, in milliseconds.
const Tick = 100

// classes are the jars of Debian's package. The first names the others that it needs.
const classes = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

// Server is a running ZooKeeper. It keeps its data over a Restart.
type Server struct {
	*servertest.Server
	data string
}

// Start runs a server until the test and its subtests end. settings are those of zoo.cfg, such as
// "maxSessionTimeout=60000", or of the JVM if they begin with "-D". The test fails at once if the
// server does not start.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{data: filepath.Join(dir, "data")}
	// The last line of a start. Before it, the server refuses sessions.
	s.Server = run(t, dir, "Using checkIntervalMs", settings, nil)
	return s
}

// Forget deletes the server's data. It is for a server that was killed.
func (s *Server) Forget(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatalf("zktest: %v", err)
	}
}

// run starts a program that is ready once it has printed a word. lines are further lines of its
// settings.
func run(t testing.TB, dir, word string, settings []string, port func() (int, error)) *servertest.Server {
	t.Helper()
	java, err := servertest.LookPath([]string{"java"})
	if err != nil {
		t.Fatalf("zktest: %v", err)
	}
	for _, jar := range strings.Split(classes, ":") {
		if _, err := os.Stat(jar); err != nil {
			t.Fatalf("zktest: %v; make test installs it", err)
		}
	}
	return servertest.Start(t, servertest.Program{
		Ready: word,
		Stop:  syscall.SIGKILL, // it has nothing to save
		Port:  port,
		Command: func(port int) *exec.Cmd {
			args := []string{
				"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
				"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no", "-Dzookeeper.4lw.commands.whitelist=*",
			}
			lines := []string{
				fmt.Sprintf("tickTime=%d", Tick), "dataDir=" + filepath.Join(dir, "data"), "maxClientCnxns=0", "preAllocSize=1024",
			}
			if !strings.Contains(strings.Join(settings, "\n"), ";127.0.0.1:") { // as a member's own line has
				lines = append(lines, fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1")
			}
			for _, s := range settings {
				if strings.HasPrefix(s, "-D") {
					args = append(args, s)
				} else {
					lines = append(lines, s)
				}
			}
			file := filepath.Join(dir, "zoo.cfg")
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Errorf("zktest: %v", err) // the server says which file is missing
			}
			cmd := exec.Command(java, append(args, "-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)...)
			cmd.Dir = dir // a JVM that crashes leaves its report there
			return cmd
		},
	})
}
