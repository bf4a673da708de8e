package zkstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

// risks are what Examine has found, without the addresses of servers.
func risks(t testing.TB, s driver.Store) []string {
	t.Helper()
	var all []string
	for _, f := range s.Describe().Examine(t.Context()) {
		if (f.Risk == "") != (f.Advice == "") {
			t.Errorf("%+v", f)
		}
		if about, _, _ := strings.Cut(f.About, " 127."); f.Risk != "" || f.Found == "" {
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

func TestExamineEnsemble(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	e := zktest.StartEnsemble(t)
	all := openAll(t, e.Addrs(), newRoot(), zkstore.WithSession(5*time.Second))
	areRisks(t, all)
	areRisks(t, openAll(t, e.Addrs()[:1], newRoot(), zkstore.WithSession(5*time.Second)), "ensemble")
	e.Servers[e.Follower(t)].Kill()
	areRisks(t, all, "server")
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	wrong := zktest.Start(t, "-Djute.maxbuffer=200000")
	root := newRoot()
	list := append(zk.DigestACL(zk.PermAll, "me", "secret"), zk.WorldACL(zk.PermRead)...)
	open(t, wrong.Addr(), root, zkstore.WithAuth("digest", []byte("me:secret")), zkstore.WithACL(list))
	looker := open(t, wrong.Addr(), root, zkstore.WithSession(20*time.Second))
	areRisks(t, looker, "ensemble", "session", "permissions", "jute.maxbuffer")
	areRisks(t, open(t, wrong.Addr(), root, zkstore.WithAuth("digest", []byte("me:secret")), zkstore.WithBuffer(200_000)), "ensemble")
	_ = looker.Close()
	areRisks(t, looker, "ensemble")
}
