//go:build unix

package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
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
	least, mean := slices.Min(pairs), int(sum.Load())/len(pairs)
	check(t, 3*least >= mean, "the shares are %v", pairs)
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

// Somebody restores a backup of a SQLite file by moving it to its place. The connections that were open went on
// with the old file, so the holder's renewals succeeded for ever, and others got the key.
func TestAFileThatWasReplaced(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]bool{"replaced": true, "deleted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/locks.db"
			u, err := storeurl.Parse("sqlite:" + file)
			must(t, err)
			must(t, u.Prepare(t.Context()))
			s := opened(t, "sqlite:"+file)
			var grants []driver.Grant
			for _, req := range []driver.Request{request("k", time.Minute), request("a", time.Minute, driver.Exclusive("b"))} { // renewed by a statement, and by a transaction
				grants = append(grants, take(t, s, req))
			}
			for _, end := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(file + end); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if replace {
				must(t, u.Prepare(t.Context()))
			}
			for i, err := range s.Renew(t.Context(), grants) {
				check(t, errors.Is(err, driver.ErrLeaseLost), "lease %d: %v", i, err)
			}
			if _, err := s.Acquire(t.Context(), request("other", time.Minute)); !errors.Is(err, sqlstore.ErrReplaced) {
				t.Errorf("Acquire: %v", err)
			}
		})
	}
}
