package server

import (
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// late is by how much the slow node's answers are delayed.
const late = 20 * time.Millisecond

// Nodes are running servers that know nothing of each other.
type Nodes struct {
	Addrs []string
	// Faulty are the same servers on a network that refuses connections to the last one, and
	// delays what the one before says.
	Faulty []string
	run    *redistest.Run
}

// StartNodes starts so many.
func StartNodes(n int) (*Nodes, error) {
	s := &Nodes{run: &redistest.Run{}}
	return s, s.run.Try(func() {
		for range n {
			s.Addrs = append(s.Addrs, redistest.Start(s.run).Addr())
		}
		s.Faulty = append(s.Faulty, s.Addrs...)
		slow, dead := servertest.NewProxy(s.run, s.Addrs[n-2]), servertest.NewProxy(s.run, s.Addrs[n-1])
		slow.Delay(late)
		dead.Cut()
		s.Faulty[n-2], s.Faulty[n-1] = slow.Addr(), dead.Addr()
	})
}

// Close ends the servers.
func (s *Nodes) Close() error { return s.run.End() }
