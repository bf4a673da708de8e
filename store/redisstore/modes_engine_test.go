package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// Two engines ask for everything in any order, over a real server, and some give
// up: nobody holds what another excludes.
func TestEnginesWithAllModes(t *testing.T) {
	long(t)
	t.Parallel()
	type request struct {
		claims []driver.Claim
		weight map[string]int // of what it holds: 100 is all of a key
	}
	g, p := driver.Exclusive("g"), driver.Permit("p", 4)
	requests := []request{
		{[]driver.Claim{g}, map[string]int{"g": 100, "g/a": 100, "g/b": 100}},
		{core.Under("g", "a"), map[string]int{"g/a": 100}},
		{core.Under("g", "b"), map[string]int{"g/b": 100}},
		{[]driver.Claim{driver.Shared("g")}, map[string]int{"g": 1}},
		{[]driver.Claim{p}, map[string]int{"p": 25}},
		{append(core.Under("g", "a"), p), map[string]int{"g/a": 100, "p": 25}},
		{[]driver.Claim{driver.Shared("g"), driver.Exclusive("p")}, map[string]int{"g": 1, "p": 100}},
	}
	server := redistest.Start(t)
	engines := []*core.Engine{engine(t, server), engine(t, server)}
	var mu sync.Mutex
	inside := map[string]int{}
	change := func(r request, by int) {
		mu.Lock()
		defer mu.Unlock()
		for key, w := range r.weight {
			if inside[key] += by * w; inside[key] > 100 {
				t.Errorf("%d hundredths of %s are held with %v", inside[key], key, r.claims)
			}
		}
	}
	granted, refused := 0, 0
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			for range 10 {
				ctx, giveUp := context.WithCancel(context.Background())
				if rand.N(4) == 0 {
					time.AfterFunc(rand.N(200*time.Millisecond), giveUp)
				}
				r := requests[rand.N(len(requests))]
				err := engines[i%2].DoAll(ctx, r.claims, func(context.Context) error {
					change(r, 1)
					time.Sleep(rand.N(5 * time.Millisecond))
					change(r, -1)
					return nil
				})
				giveUp()
				mu.Lock()
				if err == nil {
					granted++
				} else {
					refused++
				}
				mu.Unlock()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if granted < 100 || refused < 10 {
		t.Errorf("%d granted, %d gave up: that shows little", granted, refused)
	}
	for _, key := range []string{"g", "g/a", "g/b", "p"} {
		l, err := engines[0].Acquire(context.Background(), key)
		if err != nil {
			t.Error(key, err)
			continue
		}
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
