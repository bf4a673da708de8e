package service

import (
	"context"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/examples/im/impb"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/store/memstore"
)

// Every method of the service has its lock in im.proto, or an entry here that it needs none.
func TestEveryMethodHasItsLock(t *testing.T) {
	eng, err := core.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	server, locks, err := newServer(&node.Node{Locks: eng})
	if err != nil {
		t.Fatal(err)
	}
	covered := locks.Coverage(server)
	// The gateways have SetStatus take turns.
	if left := coverage.Uncovered(covered, impb.Users_SetStatus_FullMethodName); len(left) > 0 {
		t.Errorf("without a lock: %v", left)
	}
	if err := locks.Check(server); err != nil {
		t.Error(err)
	}
}
