package sqlstore

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// writeGate lets the processes that write a SQLite file in one at a time. SQLite does so, too, but its
// waiters only look now and then, every 100 ms at last. A process that writes all the time has the
// file again before they look.
//
// So there is a place for the next one, which looks often. A process that comes out may go in again a
// few times, and then it competes with the others for that place. Both places are locks of files,
// which end with their process.
//
// It is a courtesy: a process that does not use it, or that is stopped inside, costs the others some
// time, and SQLite keeps the file as it should be.
type writeGate struct {
	next, inside *os.File

	own    chan struct{} // has one element while a goroutine of this process is at the gate, which has what follows
	streak int           // how often this process went in again
	left   time.Time     // when it came out
}

const (
	// nextPause and insidePause are how long a waiter sleeps between two looks, on average.
	nextPause   = time.Millisecond
	insidePause = 100 * time.Microsecond
	// mostStreak is how often a process may go in again. Each change of processes costs the time until
	// the next one has looked.
	mostStreak = 4
	// gatePatience is after how long a waiter goes on without the gate.
	gatePatience = time.Second
)

// newWriteGate makes the gate of the database's file. Nil: it has none, because the directory can't be
// written, or the system has no such locks.
func newWriteGate(path string) *writeGate {
	var err error
	g := &writeGate{own: make(chan struct{}, 1)}
	for _, f := range []struct {
		to   **os.File
		name string
	}{{&g.next, path + "-next"}, {&g.inside, path + "-inside"}} {
		// Only read, so that processes of other users can lock what this one has made.
		if *f.to, err = os.OpenFile(f.name, os.O_CREATE|os.O_RDONLY, 0o666); err != nil {
			g.close()
			return nil
		}
	}
	if _, err := tryLock(g.next); err != nil {
		g.close()
		return nil
	}
	unlock(g.next)
	return g
}

// enter waits until nobody else is inside, but not for long. The caller calls leave afterwards.
func (g *writeGate) enter(ctx context.Context) (leave func()) {
	if g == nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, gatePatience)
	defer cancel()
	select {
	case g.own <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	if !g.again() {
		awaitLock(ctx, g.next, nextPause)
		awaitLock(ctx, g.inside, insidePause)
		unlock(g.next)
	}
	return func() {
		unlock(g.inside)
		g.left = time.Now()
		<-g.own
	}
}

// again goes in once more, if this process was the last one inside.
func (g *writeGate) again() bool {
	if g.streak >= mostStreak || time.Since(g.left) > nextPause {
		g.streak = 0
		return false
	}
	g.streak++
	ok, _ := tryLock(g.inside)
	return ok
}

// awaitLock locks f, unless ctx ends before.
func awaitLock(ctx context.Context, f *os.File, pause time.Duration) {
	for {
		if ok, err := tryLock(f); ok || err != nil {
			return
		}
		if !waitloop.Sleep(ctx, pause/2+rand.N(pause)) {
			return
		}
	}
}

func (g *writeGate) close() {
	if g == nil {
		return
	}
	for _, f := range []*os.File{g.next, g.inside} {
		_ = f.Close() // nothing was written; a nil file does nothing
	}
}
