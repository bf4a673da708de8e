package etcdstore_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore"
)

// TestForeignValue: another program has written into a key of the store. That is no outage, which
// would pass: requests for other keys go on, and a list shows those.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	c := shared(t)
	s := open(t, c)
	for _, name := range []string{"lock", "member/foreign", "record"} {
		key := "k-" + name[:4]
		must(t, checktest.ErrorOf(c.Put(t.Context(), partKey(t, key, name), "not JSON")))
		_, _, err := s.Begin(t.Context(), request(key, time.Minute))
		storetest.IsForeign(t, err)
	}
	hold(t, s, request("k-own", time.Minute))
	page, _, err := s.List(t.Context(), driver.Listing{Prefix: "k-", Records: true})
	check(t, err == nil && len(page) == 1 && page[0].Key == "k-own", "the list is %+v, %v", page, err)
}

// TestChangedByHand: an operator has deleted a member's key, or has written it and so has taken it off its lease,
// where it would stay for ever. The owner has lost its lease, and the next one has the lock: at once if the key
// was deleted, and when it next gives a sign of life if it was written, which no waiter watches.
func TestChangedByHand(t *testing.T) {
	t.Parallel()
	c := shared(t)
	a := open(t, c)
	for _, test := range []struct {
		key    string
		waiter *etcdstore.Store
		change func(name, value string) error
	}{
		{"deleted", open(t, c, etcdstore.WithWaiterLease(2*time.Minute)), func(name, _ string) error {
			return checktest.ErrorOf(c.Delete(t.Context(), name))
		}},
		{"written", open(t, c), func(name, value string) error {
			return checktest.ErrorOf(c.Put(t.Context(), name, value))
		}},
	} {
		key, b := test.key, test.waiter
		h := hold(t, a, request(key, 4*time.Minute))
		w := enqueue(t, b, request(key, 4*time.Minute))
		value, _ := stored(t, c, key, h.Owner)
		must(t, test.change(memberKey(t, key, h.Owner), value))
		storetest.IsLost(t, a.Renew(t.Context(), []driver.Grant{h})[0])
		next := w.Granted()
		storetest.IsLost(t, a.Release(t.Context(), h))
		info, err := a.Inspect(t.Context(), key)
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Owner != w.Owner || next.Token <= h.Token {
			t.Errorf("%s: token %d after %d, the holders are %+v, %v", key, next.Token, h.Token, info.Holders, err)
		}
		release(t, b, next)
	}
}

// TestForeignCursor: a cursor of another list shows nothing beyond the prefix.
func TestForeignCursor(t *testing.T) {
	t.Parallel()
	s := open(t, shared(t))
	for _, key := range []string{"a", "b", "secret"} {
		hold(t, s, request(key, time.Minute))
	}
	_, cursor, err := s.List(t.Context(), driver.Listing{Limit: 1, Records: true})
	require(t, err == nil && cursor != "", "the first page ends with %q, %v", cursor, err)
	page, _, err := s.List(t.Context(), driver.Listing{Prefix: "secret", Cursor: cursor, Limit: 10, Records: true})
	for _, info := range page {
		check(t, info.Key == "secret", "%s is in the list of what begins with secret", info.Key)
	}
	check(t, err == nil || errors.Is(err, driver.ErrInvalidOption), "%v", err)
}

// Somebody has written most of a megabyte into a lock. It must not go as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	c := shared(t)
	s := open(t, c)
	owner := hold(t, s, request("k", time.Minute)).Owner
	text, lease := stored(t, c, "k", owner)
	var value map[string]any
	must(t, json.Unmarshal([]byte(text), &value))
	long := strings.Repeat("é", 1<<17)
	value["rule"], value["trace"] = []byte(long), []byte(long)
	changed, err := json.Marshal(value)
	must(t, err)
	_, err = c.Txn(t.Context()).Then(
		clientv3.OpDelete(memberKey(t, "k", owner)), clientv3.OpPut(memberKey(t, "k", long), string(changed), clientv3.WithLease(lease)),
	).Commit()
	must(t, err)
	drivertest.Shortened(t, s, "k")

	must(t, checktest.ErrorOf(c.Put(t.Context(), memberKey(t, "other", "o"), long))) // not JSON
	_, err = s.Acquire(t.Context(), request("other", time.Minute))
	check(t, err != nil && len(err.Error()) <= 2000, "the error is not short: %.300v", err)
}
