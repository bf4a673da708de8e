package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// 20 000 leases with a TTL of 3 s were too many for a busy process. Nothing said so before the first
// of them were lost.
func TestSlowRenewalsAreLogged(t *testing.T) {
	for took, want := range map[time.Duration][]string{
		400 * time.Millisecond: nil,
		700 * time.Millisecond: {`level=WARN msg="keyturn: renewals take long, leases may be lost" leases=1000 took=700ms have=1s unsaid=0 asker=<nil>`},
	} {
		inBubble(t, took.String(), func(t *testing.T) {
			s, log := newSpy(), newLines()
			eng := newEngine(t, s, core.WithTTL(3*time.Second), core.WithLogger(slog.New(log)))
			leases := make([]*core.Lease, 1000)
			for i := range leases {
				leases[i] = mustAcquire(t, eng, fmt.Sprint(i))
			}
			s.change(func() {
				s.onRenew = func(context.Context, driver.Grant) error { time.Sleep(took / 1000); return nil }
			})
			time.Sleep(1900 * time.Millisecond)
			log.wantLines(t, want...)
			for _, l := range leases {
				mustRelease(t, l)
			}
		})
	}
}
