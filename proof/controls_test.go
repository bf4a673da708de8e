package main_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/store/memstore"
)

var errNothing = errors.New("nothing")

// enough programs to find what is wrong with a broken store.
const enough = 500

func TestProgramsFindWhatIsBroken(t *testing.T) {
	for _, broken := range []struct {
		name string
		wrap func(*memstore.Store) driver.Store
	}{
		{"a release forgets to compare the owner", func(s *memstore.Store) driver.Store { return forgetful{s} }},
		{"tokens restart", func(s *memstore.Store) driver.Store { return restarting{s} }},
		{"readers overtake a writer", func(s *memstore.Store) driver.Store { return overtaking{s} }},
		{"a refused set leaves a claim behind", func(s *memstore.Store) driver.Store { return leaving{s} }},
	} {
		t.Run(broken.name, func(t *testing.T) {
			for seed := range enough {
				if err := inMemory(t, programs().Example(seed), broken.wrap); err != nil {
					t.Logf("found by program %d: %v", seed+1, err)
					return
				}
			}
			t.Errorf("%d programs saw nothing", enough)
		})
	}
}

// late plays what goes wrong without owners and tokens: a holder is held up past
// its TTL, wakes, and releases what is another's by now, while others come.
func late(t *testing.T, wrap func(*memstore.Store) driver.Store) []history.Section {
	var buf bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		store := wrap(memstore.New())
		mono := func(at time.Time) int64 { return at.UnixNano() }
		rec := history.NewRecorder(1, &buf, func() int64 { return mono(time.Now()) }, mono)
		claims := []driver.Claim{driver.Exclusive("k")}
		// take returns what ends the lease, which is granted or not.
		take := func(owner string, ttl time.Duration) func() {
			nr := rec.Ask(claims)
			called := time.Now()
			time.Sleep(time.Millisecond)
			g, err := store.Acquire(context.Background(), driver.Request{Owner: owner, Claims: claims, TTL: ttl})
			if err != nil {
				return func() {}
			}
			note := func(what history.What) {
				rec.Note(history.Event{Nr: nr, What: what, At: rec.Clock(), Token: g.Token, Until: rec.Mono(called.Add(ttl))})
			}
			note(history.Given)
			return func() {
				note(history.Returning)
				time.Sleep(time.Millisecond)
				if store.Release(context.Background(), g) == nil {
					note(history.Returned)
				} else {
					note(history.Gone)
				}
			}
		}
		first := take("first", time.Second)
		time.Sleep(2 * time.Second)
		second := take("second", time.Minute)
		time.Sleep(time.Second)
		first()
		third := take("third", time.Minute)
		time.Sleep(time.Second)
		second()
		third()
		take("fourth", time.Minute)()
	})
	events, err := history.ReadEvents(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return history.Sections(events, nil)
}

func TestHistoriesOfBrokenStoresAreRejected(t *testing.T) {
	for _, test := range []struct {
		name string
		wrap func(*memstore.Store) driver.Store
		says []string // none: it is right
	}{
		{"nothing", whole, nil},
		{
			"a release forgets to compare the owner",
			func(s *memstore.Store) driver.Store { return forgetful{s} },
			[]string{"together", "exclusive lock"},
		},
		{
			"tokens restart",
			func(s *memstore.Store) driver.Store { return restarting{s} },
			[]string{"one token", "exclusive lock"},
		},
	} {
		t.Run(test.name, func(t *testing.T) { says(t, history.Check(late(t, test.wrap)), test.says) })
	}
}

// says checks that an error says all that, or that there is none.
func says(t *testing.T, err error, all []string) {
	t.Helper()
	if err == nil {
		err = errNothing
	} else if len(all) == 0 {
		t.Errorf("the checker complains: %v", err)
	}
	for _, want := range all {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the checker says %q, want %q in it", err, want)
		}
	}
}
