package sqlstore

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"os"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// door lets the processes that write a SQLite file in one at a time. SQLite does so, too, but its
// waiters only look now and then, every 100 ms at last. A process that writes all the time has the
// file again before they look.
//
// So there is a place for the next one, which looks often. A process that comes out may go in again a
// few times, and then it competes with the others for that place. Both places are locks of files,
// which end with their process.
//
// It is a courtesy: a process that does not use it, or that is stopped inside, costs the others some
// time, and SQLite keeps the file as it should be.
type door struct {
	next, inside *os.File

	own    chan struct{} // has one element while a goroutine of this process is at the door, which has what follows
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
	// doorPatience is after how long a waiter goes on without the door.
	doorPatience = time.Second
)

// newDoor makes the door of the database's file. Nil: it has none, because it is in memory, the
// directory can't be written, or the system has no such locks.
func newDoor(ctx context.Context, s *Store) *door {
	var path string
	err := s.query(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'", nil, nil, func(rows *sql.Rows) error { return rows.Scan(&path) })
	if err != nil || path == "" {
		return nil
	}
	d := &door{own: make(chan struct{}, 1)}
	for _, f := range []struct {
		to   **os.File
		name string
	}{{&d.next, path + "-next"}, {&d.inside, path + "-inside"}} {
		// Only read, so that processes of other users can lock what this one has made.
		if *f.to, err = os.OpenFile(f.name, os.O_CREATE|os.O_RDONLY, 0o666); err != nil {
			d.close()
			return nil
		}
	}
	if _, err := tryLock(d.next); err != nil {
		d.close()
		return nil
	}
	unlock(d.next)
	return d
}

// enter waits until nobody else is inside, but not for long. The caller calls leave afterwards.
func (d *door) enter(ctx context.Context) (leave func()) {
	if d == nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, doorPatience)
	defer cancel()
	select {
	case d.own <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	if !d.again() {
		awaitLock(ctx, d.next, nextPause)
		awaitLock(ctx, d.inside, insidePause)
		unlock(d.next)
	}
	return func() {
		unlock(d.inside)
		d.left = time.Now()
		<-d.own
	}
}

// again goes in once more, if this process was the last one inside.
func (d *door) again() bool {
	if d.streak >= mostStreak || time.Since(d.left) > nextPause {
		d.streak = 0
		return false
	}
	d.streak++
	ok, _ := tryLock(d.inside)
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

func (d *door) close() {
	if d == nil {
		return
	}
	for _, f := range []*os.File{d.next, d.inside} {
		_ = f.Close() // nothing was written; a nil file does nothing
	}
}
