package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestLeaderCutOff: the leader is cut off from the other members, and clients reach all of them. Those of
// the others go on. A process that only knows the old leader loses its lease before another one gets the
// key, and is not told that nobody has it. When the network is back, it takes part again.
func TestLeaderCutOff(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	members, network := etcdtest.Splittable(t, 3)
	leader := leaderOf(t, members)
	var others []*etcdtest.Server
	for _, m := range members {
		if m != leader {
			others = append(others, m)
		}
	}
	behind, ahead := open(t, clienttest.New(t, leader.Addr())), open(t, clienttest.New(t, addrs(others)...))
	engine := func(s *etcdstore.Store) *core.Engine {
		eng, err := core.New(s, core.WithTTL(3*time.Second), core.WithMaxWait(6*soon))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			_ = eng.Close(ctx) // a test that has failed leaves leases
		})
		return eng
	}
	old, young := engine(behind), engine(ahead)
	held, err := old.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	network.CutOff(t, leader)
	next, err := young.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatalf("the others do not go on: %v", err)
	}
	if held.Context().Err() == nil {
		t.Errorf("two hold the key: tokens %d and %d", held.Token(), next.Token())
	}
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = behind.Acquire(ctx, request("late", "free", time.Minute))
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a member without the others answers: %v", err)
	}
	network.Join()
	for end := time.Now().Add(6 * soon); ; time.Sleep(10 * time.Millisecond) {
		_, err := old.TryAcquire(t.Context(), "held")
		if errors.Is(err, core.ErrHeld) {
			break
		}
		if time.Now().After(end) || err == nil {
			t.Fatalf("when the network is back: %v", err)
		}
	}
	if err := next.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	last, err := old.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatalf("after the partition: %v", err)
	}
	if last.Token() <= next.Token() {
		t.Errorf("token %d after %d", last.Token(), next.Token())
	}
	if err := last.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
}
