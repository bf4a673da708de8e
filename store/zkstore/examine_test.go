package zkstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/zkstore"
)

func TestExamineEnsemble(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	e := zktest.StartEnsemble(t)
	all := openAll(t, e.Addrs(), newRoot(), zkstore.WithSession(5*time.Second))
	storetest.AreRisks(t, all)
	storetest.AreRisks(t, openAll(t, e.Addrs()[:1], newRoot(), zkstore.WithSession(5*time.Second)), "ensemble")
	e.Servers[e.Follower(t)].Kill()
	storetest.AreRisks(t, all, "server")
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	addr, root := zktest.Start(t, "-Djute.maxbuffer=200000").Addr(), newRoot()
	open(t, addr, root, mine, readable)
	looker := open(t, addr, root, zkstore.WithSession(20*time.Second))
	storetest.AreRisks(t, looker, "ensemble", "session", "permissions", "jute.maxbuffer")
	storetest.AreRisks(t, open(t, addr, root, mine, zkstore.WithBuffer(200_000)), "ensemble")
	_ = looker.Close()
	storetest.AreRisks(t, looker, "ensemble")
}
