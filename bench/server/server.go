// Package server gives the benchmark a Redis server of its own, which ends with it. It is the
// one that the tests use.
package server

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/keyturn/keyturn/internal/redistest"
)

// Server is a running redis-server, or valkey-server, on the loopback interface.
type Server struct {
	Addr string
	run  *run
}

// Start starts a server that writes nothing to disk.
func Start(args ...string) (*Server, error) {
	s := &Server{run: &run{}}
	return s, s.run.try(func() { s.Addr = redistest.Start(s.run, args...).Addr() })
}

// Cluster is a running Redis Cluster of masters.
type Cluster struct {
	Addrs []string
	run   *run
}

// StartCluster starts one of so many masters.
func StartCluster(masters int) (*Cluster, error) {
	c := &Cluster{run: &run{}}
	return c, c.run.try(func() {
		for _, node := range redistest.StartCluster(c.run, masters) {
			c.Addrs = append(c.Addrs, node.Addr())
		}
	})
}

// Close ends the servers.
func (c *Cluster) Close() error { return c.run.end() }

// Close ends the server.
func (s *Server) Close() error { return s.run.end() }

// run is the part of a testing.TB that redistest needs, for a program that is no test. end
// cleans up what lives as long as the server.
type run struct {
	testing.TB // nil: its other methods are not called
	cleanups   []func()
	err        error
}

// failure is what Fatalf panics with: it must not return.
type failure struct{ err error }

func (r *run) Helper()          {}
func (r *run) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *run) Fatalf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

func (r *run) TempDir() string {
	dir, err := os.MkdirTemp("", "keyturn-bench-")
	if err != nil {
		r.Fatalf("%w", err)
	}
	r.Cleanup(func() { r.err = errors.Join(r.err, os.RemoveAll(dir)) })
	return dir
}

// try calls start, and cleans up if that fails.
func (r *run) try(start func()) (err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failure:
			err = errors.Join(failed.err, r.end())
		default:
			panic(failed)
		}
	}()
	start()
	return nil
}

func (r *run) end() error {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
	return r.err
}
