package dbtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
)

// TestEnginesTakeTurns: callers of three processes change a number that nothing else protects. Most
// of them get the lease handed on within their process, under tokens that the grant has reserved.
func TestEnginesTakeTurns(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialect.database(t)
			migrate(t, d)
			const processes, callers, each = 3, 10, 5
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var number int
			var last atomic.Uint64
			var all sync.WaitGroup
			for range processes {
				eng, err := core.New(open(t, d.Open(t), dialect.Dialect))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = eng.Close(context.Background()) })
				for range callers {
					all.Go(func() {
						for range each {
							err := eng.Do(ctx, "number", func(ctx context.Context) error {
								lease, _ := core.LeaseFrom(ctx)
								token := lease.Token()
								if before := last.Swap(token); before >= token {
									t.Errorf("token %d after %d", token, before)
								}
								n := number
								time.Sleep(100 * time.Microsecond)
								number = n + 1
								return nil
							})
							if err != nil {
								t.Errorf("Do: %v", err)
							}
						}
					})
				}
			}
			all.Wait()
			if want := processes * callers * each; number != want {
				t.Errorf("%d changes, want %d", number, want)
			}
		})
	}
}
