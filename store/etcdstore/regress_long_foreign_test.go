package etcdstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/drivertest"
)

// Somebody has written most of a megabyte into a lock. It must not go as a whole into each conflict, list and log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	c := shared(t)
	s := open(t, c)
	hold(t, s, request("holder", "k", time.Minute))
	r, err := c.Get(t.Context(), memberKey(t, "k", "holder"))
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	var value map[string]any
	if err := json.Unmarshal(r.Kvs[0].Value, &value); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", 1<<17)
	value["rule"], value["trace"] = []byte(long), []byte(long)
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Txn(t.Context()).Then(
		clientv3.OpDelete(memberKey(t, "k", "holder")),
		clientv3.OpPut(memberKey(t, "k", long), string(text), clientv3.WithLease(clientv3.LeaseID(r.Kvs[0].Lease))),
	).Commit()
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Shortened(t, s, "k")

	if _, err := c.Put(t.Context(), memberKey(t, "other", "o"), long); err != nil { // not JSON
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), request("o", "other", time.Minute)); err == nil || len(fmt.Sprint(err)) > 2000 {
		t.Errorf("the error has %d bytes: %.300v", len(fmt.Sprint(err)), err)
	}
}
