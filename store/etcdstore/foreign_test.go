package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestForeignValue: another program has written into a key of the store. That is no outage, which
// would pass: requests for other keys go on, and the error names the key.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	c := shared(t)
	s := open(t, c)
	for _, name := range []string{"lock", "member/foreign", "record"} {
		key := "k-" + name[:4]
		if _, err := c.Put(t.Context(), prefix(t)+"{"+key+"}/"+name, "not JSON"); err != nil {
			t.Fatal(err)
		}
		req := request("o", key, time.Minute)
		_, _, err := s.Begin(t.Context(), req)
		if down := (*driver.UnavailableError)(nil); !errors.As(err, &down) || !down.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMemberWithoutLease: an operator has written a member's key by hand, and so has taken it off its
// lease. It would stay for ever. It counts as deleted: the owner has lost its lease, and others get the key.
func TestMemberWithoutLease(t *testing.T) {
	t.Parallel()
	c := shared(t)
	a, b := open(t, c), open(t, c)
	h := hold(t, a, request("holder", "k", time.Minute))
	w := wait(t, b, request("waiter", "k", time.Minute))
	r, err := c.Get(t.Context(), memberKey(t, "k", "holder"))
	if err == nil {
		_, err = c.Put(t.Context(), memberKey(t, "k", "holder"), string(r.Kvs[0].Value))
	}
	if err != nil {
		t.Fatal(err)
	}
	isLost(t, a.Renew(t.Context(), []driver.Grant{h})[0])
	g := w.granted()
	info, err := a.Inspect(t.Context(), "k")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Owner != "waiter" {
		t.Errorf("the holders are %+v, %v", info.Holders, err)
	}
	release(t, b, g)
}

// TestForeignCursor: a cursor of another list shows nothing beyond the prefix.
func TestForeignCursor(t *testing.T) {
	t.Parallel()
	s := open(t, shared(t))
	hold(t, s, request("o", "a", time.Minute))
	hold(t, s, request("o", "b", time.Minute))
	hold(t, s, request("o", "secret", time.Minute))
	_, cursor, err := s.List(t.Context(), driver.Listing{Limit: 1, Records: true})
	if err != nil || cursor == "" {
		t.Fatalf("the first page ends with %q, %v", cursor, err)
	}
	page, _, err := s.List(t.Context(), driver.Listing{Prefix: "secret", Cursor: cursor, Limit: 10, Records: true})
	for _, info := range page {
		if info.Key != "secret" {
			t.Errorf("%s is in the list of what begins with secret", info.Key)
		}
	}
	if err != nil && !errors.Is(err, driver.ErrInvalidOption) {
		t.Error(err)
	}
}
