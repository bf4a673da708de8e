package casstore

import "sync"

// mostParallel is how many requests of one operation are under way at a time.
const mostParallel = 64

// Parallel calls f for 0 to n-1, many at a time, and returns the first error. After an error it calls f no
// more.
func Parallel(n int, f func(int) error) error {
	if n == 1 {
		return f(0)
	}
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	work := func() {
		for {
			mu.Lock()
			i := next
			next++
			stop := first != nil || i >= n
			mu.Unlock()
			if stop {
				return
			}
			if err := f(i); err != nil {
				mu.Lock()
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		}
	}
	for range min(n, mostParallel) - 1 {
		wait.Go(work)
	}
	if n > 0 {
		work()
	}
	wait.Wait()
	return first
}
