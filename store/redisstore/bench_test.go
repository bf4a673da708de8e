package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// BenchmarkAcquireRelease is a lease and its end, each on a key of its own.
func BenchmarkAcquireRelease(b *testing.B) {
	pairs(b, func(s *redisstore.Store, i int) func(context.Context) error {
		// Owners of the engine's are about as long.
		req := request(strings.Repeat("o", 56)+fmt.Sprint(i), fmt.Sprint("user:status:", i), time.Minute)
		return func(ctx context.Context) error {
			g, err := s.Acquire(ctx, req)
			if err != nil {
				return err
			}
			return s.Release(ctx, g)
		}
	})
}

// BenchmarkCluster is BenchmarkAcquireRelease with 64 goroutines on a Cluster of three.
func BenchmarkCluster(b *testing.B) {
	const goroutines = 64
	var addrs []string
	for _, node := range redistest.StartCluster(b, 3) {
		addrs = append(addrs, node.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, PoolSize: 64})
	b.Cleanup(func() { _ = client.Close() })
	s := open(b, client)
	ours := clientCPU(b)
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			ctx := context.Background()
			req := request(strings.Repeat("o", 56)+fmt.Sprint(i), fmt.Sprint("user:status:", i), time.Minute)
			for range b.N/goroutines + 1 {
				g, err := s.Acquire(ctx, req)
				if err == nil {
					err = s.Release(ctx, g)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric((clientCPU(b)-ours)/float64((b.N/goroutines+1)*goroutines), "client-us/op")
}

// BenchmarkDo is the same as [core.Engine.Do] brings it about.
func BenchmarkDo(b *testing.B) {
	engines := map[*redisstore.Store]*core.Engine{}
	pairs(b, func(s *redisstore.Store, i int) func(context.Context) error {
		e := engines[s]
		if e == nil {
			var err error
			if e, err = core.New(s); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = e.Close(context.Background()) })
			engines[s] = e
		}
		key := fmt.Sprint("user:status:", i)
		return func(ctx context.Context) error {
			return e.Do(ctx, key, func(context.Context) error { return nil })
		}
	})
}

// pairs measures what made(store, i) makes for each goroutine. Beside the time that
// passes it tells what depends less on what else the machine does: the processor
// time of both sides and the server's own for the scripts, per pair, and how many
// of the operations shared a script call.
func pairs(b *testing.B, made func(*redisstore.Store, int) func(context.Context) error) {
	for _, goroutines := range []int{1, 64, 512} {
		b.Run(fmt.Sprint("goroutines=", goroutines), func(b *testing.B) {
			server := redistest.Start(b)
			s := open(b, server.Client(func(o *redis.Options) { o.PoolSize = 64 }))
			calls, micros := scriptTime(b, server)
			ours, theirs := clientCPU(b), serverCPU(b, server)
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range goroutines {
				pair := made(s, i)
				all.Go(func() {
					ctx := context.Background()
					for range b.N/goroutines + 1 {
						if err := pair(ctx); err != nil {
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
			b.ReportMetric((microsAfter-micros)/pairs, "script-us/op")
			b.ReportMetric((serverCPU(b, server)-theirs)/pairs, "server-us/op")
			b.ReportMetric((clientCPU(b)-ours)/pairs, "client-us/op")
			b.ReportMetric(2*pairs/(callsAfter-calls), "ops/call")
		})
	}
}

// serverCPU is the processor time that the server has used, in µs.
func serverCPU(b *testing.B, server *redistest.Server) float64 {
	b.Helper()
	info, err := server.Client().Info(within(b, 5*time.Second), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var micros float64
	for _, m := range cpuLine.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		micros += n * 1e6
	}
	return micros
}

var cpuLine = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([0-9.]+)`)

// clientCPU is the processor time that this process has used, in µs.
func clientCPU(b *testing.B) float64 {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e3
}

var statLine = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)`)

// scriptTime is how many scripts the server has run, and for how many µs.
func scriptTime(b testing.TB, server *redistest.Server) (calls, micros float64) {
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
