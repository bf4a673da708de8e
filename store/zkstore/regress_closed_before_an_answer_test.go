package zkstore_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/store/zkstore"
)

// TestClosedBeforeAnAnswer: a store that was closed before its server had answered asked without a pause, with
// all of a processor, until its time was over. In a bubble, time then stands still.
func TestClosedBeforeAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s, err := zkstore.New(t.Context(), []string{"192.0.2.1"}, silent, zkstore.WithDialer(unreachable))
		must(t, err)
		start := time.Now()
		err = s.Close()
		check(t, err == nil && time.Since(start) <= time.Second, "%v, after %v", err, time.Since(start))
	})
}
