package server

import (
	"errors"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
)

// SQL has a server for each kind of database that was asked for.
type SQL struct {
	run     redistest.Run
	mu      sync.Mutex
	servers map[string]*sqltest.Server
}

// Database makes an empty database, and starts its server if it is the first of its kind. drop ends it.
func (s *SQL) Database(kind string) (d *sqltest.Database, drop func() error, err error) {
	one := &redistest.Run{}
	err = one.Try(func() {
		start := map[string]func(testing.TB, ...string) *sqltest.Server{"postgres": sqltest.StartPostgres, "mysql": sqltest.StartMySQL}[kind]
		if start == nil {
			d = sqltest.SQLite(one)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.servers[kind] == nil {
			if s.servers == nil {
				s.servers = make(map[string]*sqltest.Server)
			}
			s.servers[kind] = start(&s.run)
		}
		d = s.servers[kind].Database(one)
	})
	end := func() (err error) {
		failed := one.Catch(func() { err = one.End() }) // a database on a server that has ended
		return errors.Join(err, failed)
	}
	return d, end, err
}

// Close ends the servers.
func (s *SQL) Close() error { return s.run.End() }
