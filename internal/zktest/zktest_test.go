//go:build unix

package zktest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Main(m)) }

func TestSharedServer(t *testing.T) {
	one, two := zktest.Shared(t), zktest.Shared(t)
	if one != two || one.PID() == 0 {
		t.Error("tests have servers of their own")
	}
}

// A majority elects another leader when the first one is killed.
func TestEnsembleOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t)
	first := e.Leader(t)
	e.Servers[first].Kill()
	if next := e.Leader(t); next == first {
		t.Errorf("server %d leads although it was killed", next)
	}
}
