//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestCircuit: a Redis that is stopped keeps a few callers waiting, and the rest
// of a crowd none. When it goes on, locks are granted again without anybody's help.
func TestCircuit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redisstore.New(server.Client(), silent)
	if err != nil {
		t.Fatal(err)
	}
	const wait = time.Second
	eng, err := core.New(store, core.WithCircuit(wait/2), core.WithMaxWait(wait), core.WithReleaseTimeout(wait))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	if err := eng.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}

	server.Pause()
	const crowd = 200
	var refused atomic.Int32
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond) // two seconds of requests
			_, err := eng.Acquire(t.Context(), fmt.Sprint("k", i%5))
			if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
				t.Errorf("caller %d: %v", i, err)
			}
			if errors.Is(err, core.ErrCircuitOpen) {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if n := refused.Load(); n < crowd/4 {
		t.Errorf("%d of %d callers were refused at once", n, crowd)
	}
	server.Resume()

	began := time.Now()
	for {
		err := eng.Do(t.Context(), "k", func(context.Context) error { return nil })
		if err == nil {
			break
		}
		if !errors.Is(err, driver.ErrUnavailable) || time.Since(began) > 10*time.Second {
			t.Fatalf("%v after the outage: %v", time.Since(began), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
