// Package server gives the benchmark a Redis server of its own, which ends with it. It is the
// one that the tests use.
package server

import "github.com/keyturn/keyturn/internal/redistest"

// Server is a running redis-server, or valkey-server, on the loopback interface.
type Server struct {
	Addr string
	run  *redistest.Run
}

// Start starts a server that writes nothing to disk.
func Start(args ...string) (*Server, error) {
	s := &Server{run: &redistest.Run{}}
	return s, s.run.Try(func() { s.Addr = redistest.Start(s.run, args...).Addr() })
}

// Cluster is a running Redis Cluster of masters.
type Cluster struct {
	Addrs []string
	run   *redistest.Run
}

// StartCluster starts one of so many masters.
func StartCluster(masters int) (*Cluster, error) {
	c := &Cluster{run: &redistest.Run{}}
	return c, c.run.Try(func() {
		for _, node := range redistest.StartCluster(c.run, masters) {
			c.Addrs = append(c.Addrs, node.Addr())
		}
	})
}

// Close ends the servers.
func (c *Cluster) Close() error { return c.run.End() }

// Close ends the server.
func (s *Server) Close() error { return s.run.End() }
