package etcdstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestLeaderCutOff: the leader is cut off from the other members, and clients reach all of them. Those of
// the others go on. A process that only knows the old leader loses its lease before another one gets the
// key, and is not told that nobody has it. When the network is back, it takes part again.
func TestLeaderCutOff(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	members, network := etcdtest.Splittable(t, 3)
	leader := leaderOf(t, members)
	others := slices.DeleteFunc(slices.Clone(members), func(m *etcdtest.Server) bool { return m == leader })
	behind := on(t, leader)
	old, young := engine(t, behind, 3*time.Second, time.Minute), engine(t, on(t, others...), 3*time.Second, time.Minute)
	held, err := old.Acquire(t.Context(), "held")
	must(t, err)
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
	_, err = behind.Acquire(ctx, request("free", time.Minute))
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a member without the others answers: %v", err)
	}
	network.Join()
	storetest.Eventually(t, "the member takes part again", func() bool {
		_, err := old.TryAcquire(t.Context(), "held")
		if err == nil {
			t.Fatal("two hold the key when the network is back")
		}
		return errors.Is(err, core.ErrHeld)
	})
	must(t, next.Release(t.Context()))
	last, err := old.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatalf("after the partition: %v", err)
	}
	if last.Token() <= next.Token() {
		t.Errorf("token %d after %d", last.Token(), next.Token())
	}
	must(t, last.Release(t.Context()))
}
