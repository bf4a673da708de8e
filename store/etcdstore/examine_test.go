package etcdstore_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

func TestExamineCluster(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	members := etcdtest.Cluster(t, 3)
	all := on(t, members...)
	storetest.AreRisks(t, all)
	storetest.AreRisks(t, on(t, members[0]), "members")
	members[0].Kill()
	storetest.AreRisks(t, all, "server")
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	wrong := etcdtest.Start(t, "--max-txn-ops", "50", "--election-timeout", "1400", "--quota-backend-bytes", "2000000")
	c := clienttest.New(t, wrong.Addr())
	s := open(t, c)
	storetest.AreRisks(t, s, "members", "shortest lease", "max-txn-ops")
	grow(t, c)
	storetest.AreRisks(t, s, "members", "alarm of", "shortest lease", "max-txn-ops")
	storetest.AreRisks(t, open(t, c), "members", "alarm of", "max-txn-ops") // which can be opened without space
	_ = s.Close()
	storetest.AreRisks(t, s, "members")
}
