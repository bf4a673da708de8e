package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestUndoneAfterALongOutage: a grant whose answer was lost is nobody's. It is undone
// also where the network takes longer to come back than anybody waits.
func TestUndoneAfterALongOutage(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server, refused)
	admin := server.Client()
	ctx := context.Background()
	network.CutReplies()
	failed := make(chan error, 1)
	go func() {
		_, err := s.Acquire(within(t, 150*time.Millisecond), request("o", "k", longTTL))
		failed <- err
	}()
	eventually(t, soon, "the server has granted it", func() bool { return admin.Exists(ctx, "lock:k").Val() == 1 })
	network.Blackhole() // or it would be undone now
	if err := <-failed; !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("Acquire: %v", err)
	}
	time.Sleep(7 * time.Second)
	if admin.Exists(ctx, "lock:k").Val() != 1 {
		t.Fatal("it was undone before the network was back: this tests nothing")
	}
	network.Heal()
	eventually(t, soon, "the grant that nobody wants is undone", func() bool { return admin.Exists(ctx, "lock:k").Val() == 0 })
}
