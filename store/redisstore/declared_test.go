package redisstore_test

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestScriptsKeepToOneSlot on a Cluster, of all that the store does. The scripts of plain
// requests make the names of keys that they were not told, so no server could check that.
func TestScriptsKeepToOneSlot(t *testing.T) {
	servertest.LongParallel(t)
	servers, client := startCluster(t)
	ctx := within(t, 30*time.Second)
	var monitors []*bufio.Scanner
	for _, server := range servers {
		monitors = append(monitors, monitor(t, ctx, server.Addr()))
	}
	s := open(t, client)
	useEverything(t, s, s)
	_ = inspectEverything(s) // what comes of it is tested elsewhere
	g := lease(t, s, "writer", driver.Exclusive("d"))
	reader := enqueueFor(t, s, "reader", driver.Shared("d"))
	g.Claims = []driver.Claim{driver.Shared("d")}
	must(t, s.Downgrade(ctx, g))
	release(t, s, reader.GrantedIn(soon))
	must(t, client.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		return c.Echo(ctx, "end of it").Err()
	}))
	scripts, keys := 0, map[string]bool{}
	for _, lines := range monitors {
		slot := "" // of the present script
		for lines.Scan() {
			line := lines.Text()
			if strings.Contains(line, `"end of it"`) {
				break
			}
			words := quoted.FindAllString(line, -1)
			if len(words) == 0 {
				continue
			}
			if name := strings.ToLower(words[0]); name == `"evalsha"` || name == `"eval"` {
				slot = tagOf(strings.Trim(words[3], `"`))
				scripts++
				continue
			}
			if !strings.Contains(line, " lua] ") {
				continue
			}
			for _, word := range words[1:] {
				key := strings.Trim(word, `"`)
				if !strings.HasPrefix(key, "lock:") && !strings.HasPrefix(key, "{lock:") || strings.HasPrefix(key, "lock:inbox:") {
					continue
				}
				keys[key[len(key)-2:]] = true
				check(t, tagOf(key) == slot, "a script for %q went to %q", slot, key)
			}
		}
		must(t, lines.Err())
	}
	// The lock itself, and each kind of side key but the counter of a single server.
	for _, side := range []string{":q", ":s", ":w", ":h", ":i", ":f", ":r", ":v", ":t"} {
		check(t, keys[side], "no script went to a key that ends in %q", side)
	}
	check(t, scripts >= 20, "%d scripts were seen", scripts)
}

// monitor reads what a server does, line by line.
func monitor(t *testing.T, ctx context.Context, addr string) *bufio.Scanner {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	deadline, _ := ctx.Deadline()
	must(t, conn.SetDeadline(deadline))
	must(t, checktest.ErrorOf(conn.Write([]byte("MONITOR\r\n"))))
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20) // a script's text is one line
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %q, %v", lines.Text(), lines.Err())
	}
	return lines
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// tagOf is the part of a name that decides its slot.
func tagOf(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		key, _, _ = strings.Cut(rest, "}")
	}
	return key
}
