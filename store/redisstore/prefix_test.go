package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestPrefix: with any prefix, and with none, the lock is the prefix and the key. All else that the store writes begins
// with a brace, so it is never in the way of a lock, or of what a program keeps beside its locks.
func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "app/lock/"} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			server := database(t)
			s, admin := open(t, server.Client(), redisstore.WithPrefix(prefix)), server.Client()
			const key = "order:7"
			theirs := map[string]bool{prefix + "order:7:lines": true, prefix + "orders": true, prefix + "order:8": true}
			admin.HSet(bg, prefix+"order:7:lines", "a", "b") // neither a lock nor a string
			admin.RPush(bg, prefix+"orders", "7")
			cli(t, server, "OK", "SET", prefix+"order:8", uuid, "NX", "PX", "60000") // a foreign lock
			only := func(when string) {
				t.Helper()
				for _, name := range admin.Keys(bg, "*").Val() {
					check(t, name == prefix+key || strings.HasPrefix(name, "{"+prefix) || theirs[name], "%s there is the key %q", when, name)
				}
			}

			g := lock(t, s, "first", key, time.Minute)
			cli(t, server, "", "SET", prefix+key, uuid, "NX", "PX", "60000")
			w, r := enqueue(t, s, "second", key, time.Minute), enqueueFor(t, s, "reader", driver.Shared(key))
			only("while others wait,")
			page, _, err := s.List(within(t, soon), driver.Listing{Limit: 100, Records: true})
			for _, info := range page {
				check(t, info.Key == key || info.Key == "order:8", "a list has %+v", info)
			}
			check(t, err == nil && len(page) == 2, "a list has %d keys, %v", len(page), err)
			release(t, s, g)
			release(t, s, r.GrantedIn(soon)) // readers go before a writer that waits: the phases alternate
			g = w.GrantedIn(soon)
			check(t, g.Token != 0, "no token")
			release(t, s, g)
			cli(t, server, "OK", "SET", prefix+key, uuid, "NX", "PX", "60000")
			cli(t, server, "1", "DEL", prefix+key)

			record(t, s, "once", key, "done")
			_, record, err := begin(t, s, "again", key)
			check(t, err == nil && record != nil && string(record.Result) == "done", "a repeat gets %+v, %v", record, err)
			p := lease(t, s, "permit", driver.Permit(key, 2))
			only("with a record and a permit,")
			wantNil(t, checktest.ErrorOf(s.ForceRelease(within(t, soon), key, "")))
			wantIs(t, "a permit that was taken by force", s.Release(within(t, soon), p), driver.ErrLeaseLost)
			only("at the end")
		})
	}
}

// TestPermissionsWithoutPrefix uses the patterns that docs/migrating.md names.
func TestPermissionsWithoutPrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := as(t, server, "~order:* ~{order:* ~{}:token", "&inbox:*", aclCommands, aclMessages)
	s := open(t, client, redisstore.WithPrefix(""))
	g := lock(t, s, "first", "order:7", time.Minute)
	w := enqueue(t, s, "second", "order:7", time.Minute)
	release(t, s, g)
	release(t, s, w.GrantedIn(soon))
	release(t, s, lease(t, s, "reader", driver.Shared("order:8")))
	g, _, err := begin(t, s, "once", "order:9")
	must(t, err)
	exhaust(t, server)
	wantIs(t, "Complete without memory", s.Complete(within(t, soon), g, driver.Record{Result: []byte("r")}, time.Hour), driver.ErrResultNotKept)
	noneIsMissed(t, server)
}
