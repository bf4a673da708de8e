package redisstore_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// Each question about a foreign value of a megabyte read and hashed the whole of it: some waiters
// for such keys kept the server from all others.
func TestLongForeignValueCostsLikeAShortOne(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	admin := server.Client()
	s := open(t, server.Client())
	cost := func(key, value string) float64 {
		t.Helper()
		admin.Set(ctx, "lock:"+key, value, time.Minute)
		before := scriptTime(t, server)
		for range 50 {
			if _, err := s.Acquire(ctx, request("o", key, time.Minute)); err == nil {
				t.Fatal("the key is taken")
			}
		}
		return scriptTime(t, server) - before
	}
	cost("warm", "x")
	short, long := cost("short", "somebody else"), cost("long", strings.Repeat("x", 1<<20))
	if long > 10*short {
		t.Errorf("50 questions about a long value took %.0f µs, about a short one %.0f µs", long, short)
	}
}

var statLine = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)`)

// scriptTime is how many µs the server has spent in scripts.
func scriptTime(t testing.TB, server *redistest.Server) (micros float64) {
	t.Helper()
	for _, m := range statLine.FindAllStringSubmatch(server.Client().Info(within(t, 5*time.Second), "commandstats").Val(), -1) {
		us, _ := strconv.ParseFloat(m[1], 64)
		micros += us
	}
	return micros
}
