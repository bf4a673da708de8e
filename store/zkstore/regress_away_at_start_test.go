package zkstore_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/storeurl"
	"github.com/keyturn/keyturn/store/zkstore"
)

// TestAwayAtStart: New asked its server, and failed without an answer or waited for it without a bound.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*servertest.Proxy){"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := servertest.NewProxy(t, zktest.Shared(t).Addr())
			url := "zk://" + network.Addr() + newRoot() + "?session=2s"
			away(network)
			drivertest.AwayAtStart(t, func() (driver.Store, error) { return storeurl.Open(t.Context(), url) }, network.Heal)
		})
	}
}

// TestClosedBeforeAnAnswer: a store that was closed before its server had answered asked without a pause, with
// all of a processor, until its time was over. In a bubble, time then stands still.
func TestClosedBeforeAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s, err := zkstore.New(t.Context(), []string{"192.0.2.1"}, silent, zkstore.WithDialer(unreachable))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := s.Close(); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v, after %v", err, time.Since(start))
		}
	})
}
