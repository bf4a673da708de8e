package zkstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/zktest"
)

// A waiter knew nothing of a release that keeps the key for a while, and found the key free when it looked by
// itself, after a third of the session.
func TestAWaiterLearnsOfALeastHold(t *testing.T) {
	t.Parallel()
	const rounds, stay = 5, 50 * time.Millisecond
	server := zktest.Shared(t)
	root := newRoot()
	a, b := open(t, server.Addr(), root), open(t, server.Addr(), root)
	var waited time.Duration
	for range rounds {
		g := mustAcquire(t, a, request("k", time.Minute))
		w := enqueue(t, b, request("k", time.Minute))
		released := time.Now()
		g.MinHold = stay
		if err := a.Release(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		next := w.granted(t, 10*time.Second)
		waited += time.Since(released)
		if err := b.Release(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	if looks := session / 3; waited/rounds > looks*2/3 {
		t.Errorf("waiters had the key %v after its release, and look by themselves after %v", waited/rounds, looks)
	}
}
