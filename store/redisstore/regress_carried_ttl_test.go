package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/redistest"
)

// An Extend before the lease is carried changes what may be borrowed, also while the server is out of memory: the TTL on
// record is written then. A forged text gets in only with what the holder has.
func TestExtendedThenCarried(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, claim := range []driver.Claim{driver.Exclusive("x"), driver.Permit("p", 1)} {
		holder, callee := engine(t, open(t, server.Client())), engine(t, open(t, server.Client()))
		lease, err := holder.AcquireAll(within(t, 5*time.Second), []driver.Claim{claim}, core.WithTTL(30*time.Second), core.WithRule("r"))
		must(t, err)
		set(t, server, "maxmemory", "1")
		err = lease.Extend(within(t, 5*time.Second), time.Minute)
		set(t, server, "maxmemory", "0")
		must(t, err)
		borrow := func(carried string) (*core.Lease, error) {
			ctx := carry.Accept(within(t, 5*time.Second), carried)
			return callee.AcquireAll(ctx, []driver.Claim{claim}, core.WithFailFast())
		}
		carried := carry.Leases(lease.Context())
		borrowed, err := borrow(carried)
		require(t, err == nil && borrowed.TTL() == time.Minute, "%v: %v, %v", claim, borrowed, err)
		_ = borrowed.Release(bg)
		token, ttl := fmt.Sprint(";", lease.Token(), ";0;"), ";60000;"
		for _, forged := range [][2]string{
			{ttl, ";60001;"},
			{ttl, ";86400000;"},
			{token, ";9223372036854775807;0;"},
			{token, ";18446744073709551615;0;"},
			{token, fmt.Sprint(";", lease.Token(), ";18446744073709551615;")},
			{token, fmt.Sprint(";", lease.Token()-1, ";0;")},
			{token, ";1e3;0;"},
		} {
			_, err = borrow(strings.Replace(carried, forged[0], forged[1], 1))
			wantIs(t, fmt.Sprint(claim, forged), err, driver.ErrHeld)
		}
		h := inspect(t, open(t, server.Client()), claim.Key).Holders
		good := len(h) == 1 && h[0].Rule == "r" && h[0].Token == lease.Token() && h[0].Left > 50*time.Second && h[0].Left <= time.Minute
		check(t, good, "%v: what is on record after an Extend: %+v", claim, h)
		must(t, lease.Release(bg))
	}
}
