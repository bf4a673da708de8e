package redlock_test

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
	f := sharing(t)
	s := f.open(t)
	long := strings.Repeat("é", 1<<19)
	for name, value := range map[string]string{"text": long, "pretends": "h/1/1/abc/id:1763683200000001:0:1763683200000:30000:" + long + "|:7"} {
		for _, server := range f.servers {
			if err := server.Client().Set(ctx, "lock:"+name, value, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
		info, err := s.Inspect(ctx, name)
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("%s: %.300v, %v", name, info, err)
		}
		h := info.Holders[0]
		if len(h.Owner) > driver.MaxOwnerBytes || len(h.Rule) > driver.MaxNoteBytes {
			t.Errorf("%s: an owner of %d bytes, a rule of %d", name, len(h.Owner), len(h.Rule))
		}
		_, err = s.Acquire(within(t, 5*time.Second), driver.Request{Owner: "o", Claims: []driver.Claim{driver.Exclusive(name)}, TTL: time.Second})
		var held *driver.HeldError
		if !errors.As(err, &held) || held.Holder != h.Owner {
			t.Errorf("%s: the conflict names another holder: %.300v", name, err)
		}
		if gone, err := s.ForceRelease(ctx, name, "test", h); err != nil || len(gone) != 1 || gone[0].Owner != h.Owner {
			t.Errorf("%s: %.300v, %v", name, gone, err)
		}
	}
}
