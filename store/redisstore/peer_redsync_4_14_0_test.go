package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestScriptFlushReachesNoCaller is about redsync v4.14.0, which answered every
// call with NOSCRIPT once the server did not know its scripts.
func TestScriptFlushReachesNoCaller(t *testing.T) {
	t.Parallel()
	server, s := storeOn(t, redistest.Start(t))
	flushing, stop := context.WithCancel(bg)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	admin := server.Client()
	all.Go(func() {
		for flushing.Err() == nil {
			admin.ScriptFlush(bg)
			time.Sleep(2 * time.Millisecond)
		}
	})
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			for round := range 15 {
				// Two keys, so that there are waits.
				req := request(fmt.Sprintf("o%d-%d", i, round), fmt.Sprint("k", i%2), time.Minute)
				req.Wait = true
				g, err := s.Acquire(within(t, 10*time.Second), req)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				for _, err := range s.Renew(within(t, 5*time.Second), []driver.Grant{g, g, g}) {
					wantIs(t, "Renew", err, nil)
				}
				wantIs(t, "Release", s.Release(within(t, 5*time.Second), g), nil)
			}
		})
	}
	workers.Wait()
	n := server.Commands(t)["script|flush"]
	check(t, n >= 10, "the scripts were flushed only %d times", n)
}
