package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// A foreign value of a megabyte went as a whole into each conflict, each list and each log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := database(t)
	s := open(t, server.Client())
	long := strings.Repeat("é", 1<<19)
	pretends := "h/1/1/abc/id:1763683200000001:0:1763683200000:30000:" + long
	for name, value := range map[string]string{"text": long, "pretends": pretends, "rule": pretends[:4000]} {
		server.Client().Set(ctx, "lock:"+name, value, time.Minute)
		info := inspect(t, s, name)
		if len(info.Holders) != 1 {
			t.Fatalf("%s: %+v", name, info)
		}
		h := info.Holders[0]
		if len(h.Owner) > driver.MaxOwnerBytes || len(h.Rule) > driver.MaxNoteBytes || strings.ContainsRune(strings.ToValidUTF8(h.Owner, "\ufffd"), '\ufffd') {
			t.Errorf("%s: an owner of %d bytes, a rule of %d: %.300q", name, len(h.Owner), len(h.Rule), h.Owner)
		}
		_, err := s.Acquire(within(t, time.Second), request("o", name, time.Minute))
		var held *driver.HeldError
		if !errors.As(err, &held) || held.Holder != h.Owner {
			t.Errorf("%s: the conflict names another holder: %.300q", name, held.Holder)
		}
	}
	if page, _, err := s.List(ctx, driver.Listing{Limit: 100, Records: true}); err != nil || len(page) != 3 || len(page[0].Holders[0].Owner) > driver.MaxOwnerBytes {
		t.Errorf("%.300v, %v", page, err)
	}

	// The shortened owner names this value, and no other that begins alike.
	seen := inspect(t, s, "text").Holders[0]
	server.Client().Set(ctx, "lock:text", long+"2", time.Minute)
	if _, err := s.ForceRelease(ctx, "text", "test", seen); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("another client has it by now: %v", err)
	}
	for _, name := range []string{"text", "pretends", "rule"} {
		h := inspect(t, s, name).Holders[0]
		if gone, err := s.ForceRelease(ctx, name, "test", h); err != nil || len(gone) != 1 || gone[0].Owner != h.Owner {
			t.Errorf("%s: %.300v, %v", name, gone, err)
		}
		if info := inspect(t, s, name); !info.IsFree() {
			t.Errorf("%s: still held", name)
		}
	}
}
