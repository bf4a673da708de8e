package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
)

// BenchmarkAcquireRelease is a lease and its end, each on a key of its own. Beside
// the time that passes it tells what depends less on what else the machine does:
// the server's own time for the scripts, per pair, and how many of the operations
// shared a script call.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, goroutines := range []int{1, 64, 512} {
		b.Run(fmt.Sprint("goroutines=", goroutines), func(b *testing.B) {
			server := redistest.Start(b)
			s := open(b, server.Client(func(o *redis.Options) { o.PoolSize = 64 }))
			calls, micros := scriptTime(b, server)
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range goroutines {
				all.Go(func() {
					ctx := context.Background()
					// Owners of the engine's are about as long.
					req := request(strings.Repeat("o", 56)+fmt.Sprint(i), fmt.Sprint("user:status:", i), time.Minute)
					for range b.N/goroutines + 1 {
						g, err := s.Acquire(ctx, req)
						if err != nil {
							b.Error(err)
							return
						}
						if err := s.Release(ctx, g); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			pairs := float64((b.N/goroutines + 1) * goroutines)
			callsAfter, microsAfter := scriptTime(b, server)
			b.ReportMetric((microsAfter-micros)/pairs, "server-us/op")
			b.ReportMetric(2*pairs/(callsAfter-calls), "ops/call")
		})
	}
}

var statLine = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)`)

// scriptTime is how many scripts the server has run, and for how many µs.
func scriptTime(b *testing.B, server *redistest.Server) (calls, micros float64) {
	b.Helper()
	info, err := server.Client().Info(within(b, 5*time.Second), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		us, _ := strconv.ParseFloat(m[2], 64)
		calls, micros = calls+n, micros+us
	}
	return calls, micros
}
