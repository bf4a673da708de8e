package zkstore_test

import (
	"testing"
	"time"
)

// A waiter knew nothing of a release that keeps the key for a while, and found the key free when it looked by
// itself, after a third of the session.
func TestAWaiterLearnsOfALeastHold(t *testing.T) {
	t.Parallel()
	const rounds, stay = 5, 50 * time.Millisecond
	z := newScene(t)
	a, b := z.open(t), z.open(t)
	var waited time.Duration
	for range rounds {
		g := hold(t, a, request("k", time.Minute))
		w := enqueue(t, b, request("k", time.Minute))
		released := time.Now()
		g.MinHold = stay
		release(t, a, g)
		next := w.Granted()
		waited += time.Since(released)
		release(t, b, next)
	}
	if looks := session / 3; waited/rounds > looks*2/3 {
		t.Errorf("waiters had the key %v after its release, and look by themselves after %v", waited/rounds, looks)
	}
}
