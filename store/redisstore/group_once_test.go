package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestExecutionsInAGroupHaveOutcomesOfTheirOwn: each request of a group gets the answer that it would get
// alone, whatever its neighbours' keys are like. Records may be any bytes.
func TestExecutionsInAGroupHaveOutcomesOfTheirOwn(t *testing.T) {
	server, s := onServer(t)
	admin := server.Client()
	stored := driver.Record{Fingerprint: []byte("\n:+!"), Result: []byte("5\n\x00é:"), Trace: "00-trace"}
	key := func(i int) string { return fmt.Sprint("k", i) }
	asks := func(owner string, i int) (driver.Grant, *driver.Record, error) {
		return s.Begin(within(t, 10*time.Second), request(fmt.Sprint(owner, i), key(i), time.Minute))
	}

	const kinds = 5
	const fresh, recorded, held, mine, wrongType = 0, 1, 2, 3, 4
	before := make([]driver.Grant, many)
	for i := range many {
		switch i % kinds {
		case recorded:
			g, _, err := asks("earlier", i)
			require(t, err == nil && s.Complete(within(t, time.Second), g, stored, time.Minute) == nil, "%v", err)
		case held:
			before[i] = lock(t, s, fmt.Sprint("holder", i), key(i), time.Minute)
		case mine: // as if the answer had been lost
			before[i] = lock(t, s, fmt.Sprint("o", i), key(i), time.Minute)
		case wrongType:
			must(t, admin.RPush(within(t, time.Second), "{lock:"+key(i)+"}:r", "x").Err())
		}
	}

	grants := make([]driver.Grant, many)
	crowd(t, server, func(i int) {
		g, rec, err := asks("o", i)
		grants[i] = g
		ok := false
		switch i % kinds {
		case fresh:
			ok = err == nil && rec == nil && g.Token > 0
		case recorded:
			ok = err == nil && rec != nil && bytes.Equal(rec.Result, stored.Result) &&
				bytes.Equal(rec.Fingerprint, stored.Fingerprint) && rec.Trace == stored.Trace
		case held:
			ok = errors.Is(err, driver.ErrHeld)
		case mine:
			ok = err == nil && rec == nil && g.Token == before[i].Token
		case wrongType:
			ok = err != nil && !errors.Is(err, driver.ErrHeld)
		}
		check(t, ok, "Begin %d of kind %d: %+v, %+v, %v", i, i%kinds, g, rec, err)
	})
	seen := map[uint64]int{}
	for i, g := range grants {
		other, twice := seen[g.Token]
		check(t, !twice || g.Token == 0, "%d and %d have one token", i, other)
		seen[g.Token] = i
	}

	must(t, admin.Del(within(t, time.Second), "lock:"+key(mine)).Err()) // somebody took it away
	crowd(t, server, func(i int) {
		if i%kinds == recorded || i%kinds == held || i%kinds == wrongType {
			return
		}
		rec := stored
		rec.Result = append([]byte(key(i)), stored.Result...)
		for range 2 { // the second as if the answer had been lost
			err := s.Complete(within(t, 10*time.Second), grants[i], rec, time.Minute)
			lost := i == mine
			check(t, lost == errors.Is(err, driver.ErrLeaseLost) && lost == (err != nil), "Complete %d: %v", i, err)
		}
	})
	for i := range many {
		switch {
		case i%kinds == held:
			release(t, s, before[i])
		case i == mine:
			g, rec, err := asks("later", i)
			check(t, err == nil && rec == nil, "after a lost lease: %+v, %+v, %v", g, rec, err)
		case i%kinds == fresh || i%kinds == mine:
			_, rec, err := asks("later", i)
			good := err == nil && rec != nil && string(rec.Result) == key(i)+string(stored.Result) && rec.Trace == stored.Trace
			check(t, good, "the record of %d: %+v, %v", i, rec, err)
		}
		n := admin.Exists(bg, "lock:"+key(i)).Val()
		check(t, (n == 1) == (i == mine), "%d of kind %d: held %d times", i, i%kinds, n)
	}
}
