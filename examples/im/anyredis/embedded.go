package anyredis

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// embedded is a Redis written in Go, in this process: enough of one for locks
// and for asynq, slower than the original, and gone with the process.
func embedded() (*Redis, error) {
	server := miniredis.NewMiniRedis()
	// It is made for tests, where keys expire only when the test says so. Without
	// this, the lock of a process that crashed would never be free again.
	server.ClockTTL(true)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	return &Redis{
		URL:   "redis://" + server.Addr(),
		Name:  "an embedded Redis (no redis-server found; miniredis)",
		close: server.Close,
	}, nil
}
