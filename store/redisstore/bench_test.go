package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
)

// BenchmarkAcquireRelease is a lease and its end, each on a key of its own.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint("goroutines=", goroutines), func(b *testing.B) {
			server := redistest.Start(b)
			s := open(b, server.Client(func(o *redis.Options) { o.PoolSize = 64 }))
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range goroutines {
				all.Go(func() {
					ctx := context.Background()
					req := request(fmt.Sprint("owner", i), fmt.Sprint("key", i), time.Minute)
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
		})
	}
}
