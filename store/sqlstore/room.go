package sqlstore

import (
	"context"
	"time"
)

// room bounds how many connections of the pool are used at a time, and has the goroutines that use
// them.
type room struct {
	places chan struct{}
	idle   chan func() // to a goroutine that has nothing to do
}

// restTime is for how long a goroutine without work stays, at most twice. A new one would have to
// grow its stack again, to the depth of a driver.
const restTime = time.Second

func newRoom(places int) *room {
	return &room{places: make(chan struct{}, places), idle: make(chan func())}
}

// enter waits for a place, until ctx ends.
func (r *room) enter(ctx context.Context) bool {
	select {
	case r.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *room) leave() { <-r.places }

// run has work done on a goroutine of the room.
func (r *room) run(s *Store, work func()) {
	select {
	case r.idle <- work:
	default:
		s.calls.Go(func() { r.work(s.life, work) })
	}
}

// work does one thing after the other. It ends when there is nothing to do for some time, or when
// life has ended.
func (r *room) work(life context.Context, work func()) {
	rest := time.NewTicker(restTime)
	defer rest.Stop()
	for busy := true; ; {
		work()
		for work = nil; work == nil; {
			select {
			case work = <-r.idle:
				busy = true
			case <-rest.C:
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
