package anyredis

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// embedded returns a Redis written in Go, in this process. It has enough commands for locks and
// for asynq. It is slower than the original, and gone when the process ends.
func embedded() (*Redis, error) {
	server := miniredis.NewMiniRedis()
	// This server is made for tests, and there keys expire only when the test says so. Without
	// this line, the lock of a process that crashed would never be free again.
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
