package zkstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// TestOnlyLooks: a console that may only read shows locks. What it must not do is refused.
func TestOnlyLooks(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t).Addr()
	root := newRoot()
	list := append(zk.DigestACL(zk.PermAll, "me", "secret"), zk.WorldACL(zk.PermRead)...)
	s := open(t, addr, root, zkstore.WithAuth("digest", []byte("me:secret")), zkstore.WithACL(list))
	looker := open(t, addr, root)
	h := mustAcquire(t, s, request("k", time.Minute))
	short := mustAcquire(t, s, request("over", 200*time.Millisecond))
	enqueue(t, s, request("k", time.Minute))
	info, err := looker.Inspect(t.Context(), "k")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Owner != h.Owner || len(info.Waiters) != 1 {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
	eventually(t, "a lease that is over is not shown", func() bool {
		info, err := looker.Inspect(t.Context(), "over")
		if err != nil {
			t.Fatal(err)
		}
		return len(info.Holders) == 0
	})
	_ = short
	if page, _, err := looker.List(t.Context(), driver.Listing{Limit: 10, Records: true}); err != nil || len(page) != 1 {
		t.Errorf("List: %+v, %v", page, err)
	}
	_, err = looker.ForceRelease(t.Context(), "k", "for the test")
	if down := (*driver.UnavailableError)(nil); !errors.As(err, &down) || !down.Refused {
		t.Errorf("ForceRelease: %v", err)
	}
	_, err = looker.Acquire(t.Context(), request("other", time.Minute))
	if down := (*driver.UnavailableError)(nil); !errors.As(err, &down) || !down.Refused {
		t.Errorf("Acquire: %v", err)
	}
}
