package redisstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// A server that cannot grant a lock may go on renewing one. A rule that runs unlocked in
// an outage ran beside its holder: in 19 of 20 calls on a server without memory, in each
// on one with too few replicas.
func TestNothingRunsUnlockedOnAServerThatRefuses(t *testing.T) {
	for name, refuse := range map[string]func(*redistest.Server){
		"out of memory":    func(s *redistest.Server) { exhaust(t, s) },
		"too few replicas": func(s *redistest.Server) { set(t, s, "min-replicas-to-write", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			holding := newEngineWith(t, open(t, server.Client()), time.Second)
			asking := newEngine(t, open(t, server.Client()), core.WithRunUnlocked())
			holder := acquire(t, holding, "k")
			refuse(server)

			var ran atomic.Int32
			for _, opts := range [][]core.CallOption{
				{core.WithFailFast()},
				{core.WithMaxWait(300 * time.Millisecond)},
				{core.WithMaxWait(3 * time.Second)}, // longer than the circuit takes to open
				{core.WithFailFast()},
			} {
				err := asking.Do(within(t, 10*time.Second), "k", func(context.Context) error {
					ran.Add(1)
					return nil
				}, opts...)
				if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrHeld) || errors.Is(err, core.ErrCircuitOpen) {
					t.Errorf("Do: %v", err)
				}
			}
			if n := ran.Load(); n > 0 {
				t.Errorf("%d of 4 calls ran unlocked", n)
			}
			if name == "out of memory" && holder.Err() != nil {
				t.Errorf("the holder's lease: %v", holder.Err())
			}
		})
	}
}
