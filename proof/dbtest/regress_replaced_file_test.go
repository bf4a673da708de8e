package dbtest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

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
				if !errors.Is(err, driver.ErrLeaseLost) {
					t.Errorf("lease %d: %v", i, err)
				}
			}
			if _, err := s.Acquire(t.Context(), request("other", time.Minute)); !errors.Is(err, sqlstore.ErrReplaced) {
				t.Errorf("Acquire: %v", err)
			}
		})
	}
}
