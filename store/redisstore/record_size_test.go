package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// Records are kept for a day, by the million. The name of the host was most of one.
func TestSizeOfARecord(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	s := open(t, client)
	ctx := within(t, 20*time.Second)
	for _, host := range []string{"vm", "openim-msgtransfer-6d5f8c7b9d-abcde", strings.Repeat("h", 64)} {
		for _, key := range []string{"msg:0123456789abcdef", "msg:0123456789abcdef0123456789abcd"} {
			for fingerprint, most := range map[string]int64{"": 160, "0123456789abcdef": 220} {
				owner := driver.Owner{Host: host, PID: 1_000_000, Instance: 12, Start: time.Now(), ID: "53a1fac7df860f5486080e8cbc92c3ab"}.String()
				g, _, err := begin(t, s, owner, key)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Complete(ctx, g, driver.Record{Fingerprint: []byte(fingerprint)}, time.Hour); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("host of %d bytes, key of %d, fingerprint of %d", len(host), len(key), len(fingerprint))
				size, err := client.MemoryUsage(ctx, "{lock:"+key+"}:r").Result()
				if err != nil || size > most {
					t.Errorf("%s: %d bytes, want %d at most (%v)", what, size, most, err)
				}
				t.Logf("%s: %d bytes", what, size)
				if err := s.Complete(ctx, g, driver.Record{}, time.Hour); err != nil {
					t.Errorf("%s: a repeat: %v", what, err)
				}
				info, err := s.Inspect(ctx, key)
				if err != nil || info.Record == nil || len(host) < 28 && info.Record.Owner != owner {
					t.Errorf("%s: %+v, %v", what, info.Record, err)
				}
				if err := client.FlushAll(ctx).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
