//go:build unix

package anyredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/internal/redistest"
)

// private starts a server that only this run uses. It stores nothing on disk, and ends with this process, too.
func private(ctx context.Context, program string) (*Redis, error) {
	run := new(redistest.Run)
	var server *redistest.Server
	err := run.Try(func() { server = redistest.Start(run) })
	if err != nil {
		return nil, fmt.Errorf("%s does not start (REDIS_URL=redis://... would name another Redis): %w", program, err)
	}
	info, err := server.Client().Info(ctx, "server").Result()
	if err != nil {
		return nil, errors.Join(err, run.End())
	}
	return &Redis{
		URL:   "redis://" + server.Addr(),
		Name:  fmt.Sprintf("a private %s %s", program, versionIn(info)),
		PID:   server.PID(),
		close: func() { _ = run.End() },
	}, nil
}
