//go:build unix

package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// onDisk opens a store that waits for the disk, as SQLite does by default.
func onDisk(t *testing.T, d *sqltest.Database) *sqlstore.Store {
	t.Helper()
	db, err := sql.Open(d.Driver, strings.Replace(d.DSN(), "synchronous(off)", "synchronous(full)", 1))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return open(t, db, sqlstore.SQLite)
}

// TestWritersOfSQLiteTakeTurns: processes that write all the time have about the same share. SQLite
// alone gives one of them six times as much as another.
func TestWritersOfSQLiteTakeTurns(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	d := sqltest.SQLite(t)
	migrate(t, d)
	const enough = 800
	pairs := make([]int, 8)
	var sum atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(20 * time.Second) // a busy disk gives less
	for i := range pairs {
		s := onDisk(t, d)
		all.Go(func() {
			for sum.Add(1) <= enough && time.Now().Before(end) {
				g, err := s.Acquire(context.Background(), request(fmt.Sprint("k", i), time.Minute))
				if err == nil {
					err = s.Release(context.Background(), g)
				}
				if err != nil {
					t.Errorf("process %d: %v", i, err)
					return
				}
				pairs[i]++
			}
		})
	}
	all.Wait()
	if least, mean := slices.Min(pairs), int(sum.Load())/len(pairs); 3*least < mean {
		t.Errorf("the shares are %v", pairs)
	}
}

// TestStoppedAtTheWriteGate: a process that is stopped where it keeps the others from writing does so for a
// while only.
func TestStoppedAtTheWriteGate(t *testing.T) {
	t.Parallel()
	d := sqltest.SQLite(t)
	migrate(t, d)
	s := onDisk(t, d)
	for _, end := range []string{"-next", "-inside"} {
		name := d.DSN()[len("file:"):strings.Index(d.DSN(), "?")] + end
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, request("k"+end, time.Minute)); err != nil {
			t.Errorf("%s is locked: %v", end, err)
		}
		_ = f.Close()
	}
}
