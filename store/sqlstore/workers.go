package sqlstore

import (
	"context"
	"time"
)

// workers are the goroutines that use connections of the pool. Their number bounds how many connections are
// used at a time.
type workers struct {
	slots chan struct{} // has one element for each that works
	idle  chan func()   // to a goroutine that has nothing to do
}

// restTime is for how long a goroutine without work stays, at most twice. A new one would have to
// grow its stack again, to the depth of a driver.
const restTime = time.Second

func newWorkers(n int) *workers {
	return &workers{slots: make(chan struct{}, n), idle: make(chan func())}
}

// enter waits until one of them is free, or ctx ends.
func (w *workers) enter(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *workers) leave() { <-w.slots }

// run has work done on a goroutine of theirs.
func (w *workers) run(s *Store, work func()) {
	select {
	case w.idle <- work:
	default:
		s.calls.Go(func() { w.work(s.life, work) })
	}
}

// work does one thing after the other. It ends when there is nothing to do for some time, or when
// life has ended.
func (w *workers) work(life context.Context, work func()) {
	rest := time.Tick(restTime)
	for busy := true; ; {
		work()
		for work = nil; work == nil; {
			select {
			case work = <-w.idle:
				busy = true
			case <-rest:
				if !busy {
					return
				}
				busy = false
			case <-life.Done():
				return
			}
		}
	}
}
