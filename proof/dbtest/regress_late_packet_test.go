package dbtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// A request arrived 9 s late, after it had been given up and undone. It locked the key for the whole TTL.
func TestALatePacketKeepsNoKey(t *testing.T) {
	servertest.Long(t)
	withServers(t, func(t *testing.T, d *sqltest.Database) {
		const late = 9 * time.Second
		network := servertest.NewProxy(t, d.Server.Addr())
		db := d.OpenAt(t, network.Addr())
		db.SetMaxOpenConns(2)
		s, other := open(t, db, dialectOf(d)), open(t, d.Open(t), dialectOf(d))
		d.Swept(t, func() { use(t, s, "warm") }) // it has used another connection
		use(t, s, "warm", "warm", "warm")        // the driver knows the statement then
		use(t, other, "k")                       // MariaDB takes rows that exist
		network.DelayNext(late)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Acquire(ctx, request("k", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("Acquire: %v", err)
		}
		takenAndFreed(t, other, began.Add(3*late))
	})
}

// takenAndFreed waits for the late request to take the key, and for the end of that.
func takenAndFreed(t *testing.T, s *sqlstore.Store, until time.Time) {
	t.Helper()
	taken := time.Time{}
	for time.Now().Before(until) {
		info, err := s.Inspect(t.Context(), "k")
		must(t, err)
		switch held := len(info.Holders) > 0; {
		case held && taken.IsZero():
			taken = time.Now()
		case !held && !taken.IsZero():
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("locked to nobody since %v (zero: the packet did not arrive)", taken)
}

// The same of a request that left in a batch.
func TestALatePacketOfABatchKeepsNoKey(t *testing.T) {
	servertest.Long(t)
	d := onPostgres(t)
	const late = 9 * time.Second
	network, faults := servertest.NewProxy(t, d.Server.Addr()), new(sqltest.Faults)
	s, other := open(t, faults.OpenDSN(t, d, d.DSNAt(network.Addr())), sqlstore.Postgres, sqlstore.WithMaxConns(alone+1)), open(t, d.Open(t), sqlstore.Postgres)
	use(t, other, "k", "w", "busy0", "busy1", "busy2")
	d.Swept(t, func() { use(t, s, "w") })
	var kept atomic.Int64
	_, onward := faults.HoldBackAll(func(query string) bool {
		return strings.HasPrefix(query, "INSERT INTO") && kept.Add(1) > 0
	})
	defer onward()
	for i := range alone {
		go func() { _, _ = s.Acquire(t.Context(), request(fmt.Sprint("busy", i), time.Minute)) }()
	}
	checktest.Eventually(t, "nobody more may send alone", func() bool { return kept.Load() == alone })
	use(t, s, "w", "w", "w") // the driver knows the statement of a batch then
	network.DelayNext(late)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	checktest.WantIs(t, "Acquire", checktest.ErrorOf(s.Acquire(ctx, request("k", time.Minute))), driver.ErrUnavailable)
	time.AfterFunc(6*time.Second, onward) // when the connection has been given up
	takenAndFreed(t, other, began.Add(3*late))
}
