package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// When a part of the store did not answer a release, all that was owed to the other parts was looked
// through, under a mutex: 64 times, once for each release under way.
func TestASilentPartDoesNotHaveTheOthersLookedThrough(t *testing.T) {
	const many = 2_000
	synctest.Test(t, func(t *testing.T) {
		s := &divided{telling: newTelling()}
		eng := newEngine(t, s, core.WithLinger(10*time.Second), core.WithMaxLingering(2*many))
		for _, part := range []string{"a", "b"} {
			for i := range many {
				time.Sleep(100 * time.Microsecond) // tokens must not outrun the clock
				mustRelease(t, mustAcquire(t, eng, fmt.Sprint(part, i)))
			}
		}
		s.change(func() {
			s.onRelease = func(_ context.Context, g driver.Grant) error {
				time.Sleep(time.Millisecond)
				if g.Claims[0].Key[0] == 'a' {
					return errDown
				}
				return nil
			}
		})
		s.located.Store(0)
		s.tell("", "") // messages were missed, so all of them go back
		time.Sleep(100 * time.Millisecond)
		// Some questions for each lease: when it is owed, sent, answered or left to the goroutine.
		if n := s.located.Load(); n > 5*2*many {
			t.Errorf("%d leases end, and the store was asked %d times in which part one is", 2*many, n)
		}
		s.change(func() { s.onRelease = nil })
	})
}

// divided is a store of two parts, each with the keys that begin with its name.
type divided struct {
	*telling
	located atomic.Int64
}

func (s *divided) Describe() driver.Description {
	d := s.telling.Describe()
	d.Partition = func(key string) string { s.located.Add(1); return key[:1] }
	return d
}
