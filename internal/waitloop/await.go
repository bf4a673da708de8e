package waitloop

import (
	"context"
	"time"
)

// Await runs op on a goroutine that start begins, and returns its error. It is for clients whose calls
// do not end with a context. If ctx ends first, Await reports that op was not answered, and returns the cause.
// op then goes on, and late, if it is not nil, is called after it on that goroutine.
func Await(ctx context.Context, start func(func()), op func() error, late func()) (err error, answered bool) {
	done, abandoned := make(chan error), make(chan struct{})
	start(func() {
		err := op()
		select {
		case done <- err:
		case <-abandoned:
			if late != nil {
				late()
			}
		}
	})
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
		close(abandoned)
		return context.Cause(ctx), false
	}
}

// Insist calls try until it reports success, and gives up once the moment over has come. It is for what
// must be undone although its caller has gone: the backend may be out for a while. The pauses grow from
// 10 ms to 1 s. Insist reports false if life ends meanwhile.
func Insist(life context.Context, over time.Time, try func() bool) bool {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if try() || time.Now().After(over) {
			return true
		}
		if !Sleep(life, pause) {
			return false
		}
	}
}
