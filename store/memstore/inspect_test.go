package memstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
)

func TestListRefuses(t *testing.T) {
	s := New()
	for _, cursor := range []string{"x", "1", "64/a", "-1/a", "/a", "1a/"} {
		_, _, err := s.List(bg, driver.Listing{Cursor: cursor, Limit: 10, Records: true})
		wantIs(t, cursor, err, driver.ErrInvalidOption)
	}
	_, _, err := s.List(bg, driver.Listing{Cursor: "63/a/b", Limit: 10, Records: true})
	expect(t, err == nil, "%v", err)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, _, err = s.List(ctx, driver.Listing{Limit: 10, Records: true})
	wantIs(t, "an ended context", err, context.Canceled)
}

// TestNotesAreBounded, and the latest are kept.
func TestNotesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2 * maxNotes
		s := New()
		var grants []driver.Grant
		for i := range n {
			grants = append(grants, mustAcquire(t, s, driver.Request{Owner: fmt.Sprint(i), Claims: []driver.Claim{driver.Exclusive("k")}, TTL: time.Minute}))
			must(t, checktest.ErrorOf(s.ForceRelease(bg, "k", fmt.Sprint(i))))
			time.Sleep(time.Millisecond)
		}
		kept := len(s.mem.shard("k").forced.byLease)
		expect(t, kept == maxNotes, "%d notes in a shard, want at most %d", kept, maxNotes)
		for i, err := range s.Renew(bg, grants) {
			lost := (*driver.LeaseLostError)(nil)
			expect(t, errors.As(err, &lost) && (lost.Detail != "") == (i >= n-maxNotes), "note %d: %v", i, err)
		}
		time.Sleep(keystate.ReasonKept)
		lost := (*driver.LeaseLostError)(nil)
		expect(t, errors.As(s.Renew(bg, grants[n-1:])[0], &lost) && lost.Reason == driver.LossTaken, "after an hour: %+v", lost)
		s.mem.sweepAll()
		kept = len(s.mem.shard("k").forced.byLease)
		expect(t, kept == 0, "%d notes are left after an hour", kept)
	})
}
