package dbtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
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
		use(t, s, "warm", "warm", "warm") // the driver knows the statement then
		use(t, other, "k")                // MariaDB takes rows that exist
		network.DelayNext(late)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Acquire(ctx, request("k", time.Minute)); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("Acquire: %v", err)
		}
		taken := time.Time{}
		for time.Since(began) < 3*late {
			info, err := other.Inspect(t.Context(), "k")
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
	})
}
