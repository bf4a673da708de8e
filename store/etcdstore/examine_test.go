package etcdstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
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

// areRisks checks that these are found, and nothing else. A busy machine may elect a leader or break a connection
// meanwhile, so it looks again.
func areRisks(t testing.TB, s driver.Store, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if got = risks(t, s); slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("risks %q, want %q", got, want)
}

func TestExamineCluster(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	members := etcdtest.Cluster(t, 3)
	all := open(t, clienttest.New(t, addrs(members)...))
	areRisks(t, all)
	areRisks(t, open(t, clienttest.New(t, members[0].Addr())), "members")
	members[0].Kill()
	areRisks(t, all, "server")
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	wrong := etcdtest.Start(t, "--max-txn-ops", "50", "--election-timeout", "1400", "--quota-backend-bytes", "2000000")
	c := clienttest.New(t, wrong.Addr())
	s := open(t, c)
	areRisks(t, s, "members", "shortest lease", "max-txn-ops")
	grow(t, c)
	areRisks(t, s, "members", "alarm of", "shortest lease", "max-txn-ops")
	areRisks(t, open(t, c), "members", "alarm of", "max-txn-ops") // which can be opened without space
	_ = s.Close()
	areRisks(t, s, "members")
}
