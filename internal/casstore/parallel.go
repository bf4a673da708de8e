package casstore

import (
	"sync"
	"sync/atomic"
)

// mostParallel is how many requests of one operation are under way at a time.
const mostParallel = 64

// Parallel calls f for 0 to n-1, many at a time, and returns the first error. After an error it calls f no
// more.
func Parallel(n int, f func(int) error) error {
	var (
		wait  sync.WaitGroup
		next  atomic.Int64
		first atomic.Pointer[error]
	)
	work := func() {
		for first.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if err := f(i); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		}
	}
	for range min(n, mostParallel) - 1 {
		wait.Go(work)
	}
	work()
	wait.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}
