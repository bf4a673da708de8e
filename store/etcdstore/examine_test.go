package etcdstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// risks are what Examine has found, without the addresses of servers.
func risks(t testing.TB, s driver.Store) []string {
	t.Helper()
	var all []string
	for _, f := range s.Describe().Examine(t.Context()) {
		if (f.Risk == "") != (f.Advice == "") {
			t.Errorf("%+v", f)
		}
		if about, _, _ := strings.Cut(f.About, " 127."); f.Risk != "" {
			all = append(all, about)
		}
	}
	return all
}

// TestExamine: what is wrong with servers is found, and nothing else.
func TestExamine(t *testing.T) {
	t.Parallel()
	// A busy machine may elect a leader or break a connection meanwhile, so it looks again.
	is := func(s driver.Store, want ...string) {
		t.Helper()
		var got []string
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if got = risks(t, s); slices.Equal(got, want) {
				return
			}
		}
		t.Errorf("risks %q, want %q", got, want)
	}
	members := etcdtest.Cluster(t, 3)
	all := open(t, clienttest.New(t, addrs(members)...))
	is(all)
	is(open(t, clienttest.New(t, members[0].Addr())), "members")
	members[0].Kill()
	is(all, "server")

	wrong := etcdtest.Start(t, "--max-txn-ops", "50", "--election-timeout", "1400", "--quota-backend-bytes", "2000000")
	c := clienttest.New(t, wrong.Addr())
	s := open(t, c)
	is(s, "members", "shortest lease", "max-txn-ops")
	grow(t, c)
	is(s, "members", "alarm of", "shortest lease", "max-txn-ops")
	is(open(t, c), "members", "alarm of", "max-txn-ops") // which can be opened without space
	_ = s.Close()
	is(s, "members")
}
