//go:build unix

package zktest

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// members is how many servers an ensemble has.
const members = 3

// electionTimeout is how long an ensemble may take to elect a leader, on a busy machine.
const electionTimeout = 60 * time.Second

// Ensemble is three servers, of which a majority decides.
type Ensemble struct {
	Servers [members]*Server
	// ways[i][j] is how member i reaches member j if that is the leader and the ensemble is splittable.
	ways [members][members]*servertest.Proxy
}

// StartEnsemble runs an ensemble until the test and its subtests end, and returns when it serves.
func StartEnsemble(t testing.TB) *Ensemble {
	t.Helper()
	return start(t, false)
}

// StartSplittable does as [StartEnsemble], with a network between the servers for [Ensemble.Part].
// Its elections take ten seconds: the network accepts connections for a server that does not yet.
func StartSplittable(t testing.TB) *Ensemble {
	t.Helper()
	return start(t, true)
}

func start(t testing.TB, splittable bool) *Ensemble {
	t.Helper()
	e := new(Ensemble)
	var quorum, election, client [members]int
	for _, ports := range []*[members]int{&quorum, &election, &client} {
		for i := range ports {
			port, err := servertest.FreePort()
			if err != nil {
				t.Fatalf("zktest: %v", err)
			}
			ports[i] = port
		}
	}
	for i := range e.Servers {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		settings := []string{"initLimit=100", "syncLimit=10", "maxSessionTimeout=20000"}
		for j := range e.Servers {
			way := quorum[j]
			if i != j && splittable {
				e.ways[i][j] = servertest.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", quorum[j]))
				_, port, _ := net.SplitHostPort(e.ways[i][j].Addr())
				if _, err := fmt.Sscan(port, &way); err != nil {
					t.Fatalf("zktest: %v", err)
				}
			}
			settings = append(settings, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant;127.0.0.1:%d", j+1, way, election[j], client[j]))
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatalf("zktest: %v", err)
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", i+1), 0o600); err != nil {
			t.Fatalf("zktest: %v", err)
		}
		port := client[i]
		e.Servers[i] = &Server{Server: run(t, dir, "binding to port", settings, func() (int, error) { return port, nil }), data: data}
	}
	e.Leader(t)
	return e
}

// Addrs returns the addresses of the members.
func (e *Ensemble) Addrs() []string {
	var addrs []string
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Leader returns the number of the member that leads a majority. It waits until there is one.
func (e *Ensemble) Leader(t testing.TB) int {
	t.Helper()
	for end := time.Now().Add(electionTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		leader, followers := -1, 0
		for i, s := range e.Servers {
			switch mode(s.Addr()) {
			case "leader":
				leader = i
			case "follower":
				followers++
			}
		}
		if leader >= 0 && followers > 0 {
			return leader
		}
	}
	t.Fatal("zktest: the ensemble has no leader")
	return 0
}

// Follower returns the number of a member that follows the leader.
func (e *Ensemble) Follower(t testing.TB) int {
	t.Helper()
	leader := e.Leader(t)
	for i, s := range e.Servers {
		if i != leader && mode(s.Addr()) == "follower" {
			return i
		}
	}
	t.Fatal("zktest: nobody follows the leader")
	return 0
}

// Part loses everything that a follower and the leader of a splittable ensemble send each other, until
// Join.
func (e *Ensemble) Part(follower, leader int) { e.ways[follower][leader].Blackhole() }

// Join ends the effect of Part.
func (e *Ensemble) Join(follower, leader int) { e.ways[follower][leader].Heal() }

// mode asks a server what it is: "leader", "follower", "standalone", or "" if it does not serve.
func mode(addr string) string {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // the answer says whether it had an effect
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(conn)
	_, after, _ := strings.Cut(string(answer), "Mode: ")
	word, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(word)
}
