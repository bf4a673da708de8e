// Package server gives the benchmark a Redis server of its own, which ends with
// it. It is the one that the tests use.
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
func Start(args ...string) (s *Server, err error) {
	r := &run{}
	defer func() {
		if failed, ok := recover().(failure); ok {
			err = errors.Join(failed.err, r.end())
		}
	}()
	started := redistest.Start(r, args...)
	return &Server{Addr: started.Addr(), run: r}, nil
}

// Close ends the server.
func (s *Server) Close() error { return s.run.end() }

// run is the part of a testing.TB that redistest needs, for a program that is
// no test: what lives as long as the server is cleaned up by end.
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

func (r *run) end() error {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
	return r.err
}
