package redisstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestPlainRequestsAmongOthers puts requests into one group whose outcome depends
// on those before: on a line that begins there, and on a counter that is written
// by others, too. The counter is ahead of the clock, so that the tokens are known.
func TestPlainRequestsAmongOthers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := redistest.Start(t).Client()
	s, err := New(client, WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const count = 8000000000000000
	client.Set(ctx, s.keys.counter(), count, 0)
	ask := func(owner string, wait bool, claims ...core.Claim) *request {
		a := &asking{
			s: s, req: core.Request{Owner: owner, Claims: claims, TTL: time.Minute}, notes: "rule|trace",
			groups: [][]core.Claim{claims}, stuck: make([]int, 1), began: time.Now(),
		}
		return a.question(0, wait, "")
	}
	free := func(owner, key string) *request {
		return s.releases(owner, []core.Claim{core.Exclusive(key)}, 0)[0].request
	}
	group := []*request{
		ask("a", false, core.Exclusive("k")),
		ask("permit", false, core.Permit("p", 2)),
		ask("a", false, core.Exclusive("k")),  // again: the same
		ask("b", true, core.Exclusive("k")),   // gets in line
		ask("c", false, core.Exclusive("k2")), // plain, behind requests that were not
		free("x", "k2"),                       // not its own
		free("a", "k"),                        // lets b in
		ask("d", false, core.Exclusive("k")),  // finds b
		free("c", "k2"),
	}
	s.sendGroup(group)
	want := []string{
		"8000000000000001",
		"[granted 8000000000000002 0]",
		"[granted 8000000000000001",
		"[held 0 a:8000000000000001:",
		"8000000000000003",
		"[0]",
		"1",
		"[held 0 b:8000000000000004:",
		"1",
	}
	for i, r := range group {
		if got := fmt.Sprint(r.reply.Val()); r.err != nil || !strings.HasPrefix(got, want[i]) {
			t.Errorf("request %d: want %s, got %s, %v", i, want[i], got, r.err)
		}
		if r.wire.sent-r.wire.refused != 1 || time.Since(r.wire.last) > time.Minute {
			t.Errorf("request %d: %+v", i, r.wire)
		}
	}
	if n, err := client.Get(ctx, s.keys.counter()).Uint64(); n != count+4 {
		t.Errorf("the counter is %d, %v", n, err)
	}
	if v := client.Get(ctx, "lock:k").Val(); !strings.HasSuffix(v, ":rule|trace") {
		t.Errorf("the lock is %s", v)
	}
}

// TestPlainRequestInFull: alone, it says the same in its script's own words.
func TestPlainRequestInFull(t *testing.T) {
	ks := keyspace{prefix: "lock:", where: single}
	for _, c := range []struct {
		r    *request
		want string
	}{
		{
			plainly(acquireScript, brief{
				key: "k", owner: "o", number: 30000, notes: "n|",
				rest: ofWait(true, 6*time.Second, 3*time.Second, 12*time.Millisecond, 1, 7, "lock:inbox:1"),
			}),
			"[o true 0 x 30000 1 6000 3000 lock:inbox:1 false n| 12 1 7 ]",
		},
		{plainly(acquireScript, brief{key: "k", owner: "o", number: 1, rest: ofWait(false, 0, 0, 0, 0, 0, "")}), "[o true 0 x 1 0 0 0  false  0 0 0 ]"},
		{plainly(releaseScript, brief{key: "k", owner: "o", number: 7}), "[o true 0 x 7 ]"},
	} {
		c.r.full(ks)
		if got := fmt.Sprint(c.r.args); got != c.want || fmt.Sprint(c.r.keys) != fmt.Sprint(ks.of("k")) {
			t.Errorf("%v of %q, want %s", got, c.r.keys, c.want)
		}
	}
}
