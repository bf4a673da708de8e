package memstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

func TestSetStress(t *testing.T) {
	const workers, rounds, keys = 24, 150, 6
	s := New()
	var inside [keys]atomic.Int64 // -1: a writer; else readers, or permits times 1000
	var last [keys]atomic.Uint64
	var all sync.WaitGroup
	for w := range workers {
		st := s.Peer()
		all.Go(func() {
			for round := range rounds {
				req := driver.Request{Owner: fmt.Sprintf("%d.%d", w, round), TTL: 10 * time.Second, Wait: true}
				for key := range keys {
					name := fmt.Sprint(key)
					switch rand.N(8) {
					case 0:
						req.Claims = append(req.Claims, driver.Exclusive(name))
					case 1:
						req.Claims = append(req.Claims, driver.Shared(name))
					case 2:
						req.Claims = append(req.Claims, driver.Permit(name, 2))
					}
				}
				if len(req.Claims) == 0 {
					continue
				}
				ctx, cancel := context.WithTimeout(bg, time.Minute)
				if rand.N(4) == 0 {
					ctx, cancel = context.WithTimeout(bg, rand.N(time.Millisecond))
				}
				g, err := st.Acquire(ctx, req)
				patient := ctx.Err() == nil
				cancel()
				if err != nil {
					if patient || !errors.Is(err, driver.ErrHeld) {
						t.Errorf("%v", err)
					}
					continue
				}
				for _, c := range g.Claims {
					enter(t, c, g.Token, inside[:], last[:])
				}
				if rand.N(2) == 0 {
					time.Sleep(rand.N(100 * time.Microsecond))
				}
				for _, c := range g.Claims {
					inside[c.Key[0]-'0'].Add(-weight(c))
				}
				if err := st.Release(bg, g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	checkEmpty(t, s)
}

func weight(c driver.Claim) int64 {
	return map[driver.Mode]int64{driver.ModeExclusive: 1_000_000, driver.ModeShared: 1, driver.ModePermit: 1000}[c.Mode]
}

func enter(t *testing.T, c driver.Claim, token uint64, inside []atomic.Int64, last []atomic.Uint64) {
	key := c.Key[0] - '0'
	n := inside[key].Add(weight(c))
	switch {
	case c.Mode == driver.ModeExclusive && n != 1_000_000,
		c.Mode == driver.ModeShared && n >= 1000,
		c.Mode == driver.ModePermit && n != 1000 && n != 2000:
		t.Errorf("%+v in force with %d", c, n)
	}
	if c.Mode == driver.ModeExclusive {
		if before := last[key].Swap(token); before >= token {
			t.Errorf("%s: token %d after %d", c.Key, token, before)
		}
	}
}
