package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// How soon, and how often, a wait is explained.
const (
	progressAfter    = time.Second
	progressTerminal = time.Second
	progressPipe     = 30 * time.Second
)

// progress says on standard error who holds the keys, and how many are ahead, until stop is called. If nobody
// reads that, stop does not wait for it: the key is held by then.
func (a *app) progress(ctx context.Context, eng *core.Engine, keys []string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		terminal := isTerminal(a.stderr)
		pause, begun, shown := progressAfter, time.Now(), false
		for {
			select {
			case <-ctx.Done():
				if shown && terminal {
					fmt.Fprint(a.stderr, "\r\x1b[K")
				}
				return
			case <-time.After(pause):
			}
			text := waitText(ctx, eng, keys, time.Since(begun))
			if ctx.Err() != nil {
				continue
			}
			shown = true
			if pause = progressPipe; terminal {
				pause = progressTerminal
				fmt.Fprintf(a.stderr, "\r\x1b[Kkeyturn: %s", text)
			} else {
				a.say("%s", text)
			}
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// waitText describes a wait. A store that can't be looked into is waited for all the same.
func waitText(ctx context.Context, eng *core.Engine, keys []string, waited time.Duration) string {
	host, _ := os.Hostname()
	self := driver.CleanHost(host) + "/" + strconv.Itoa(os.Getpid())
	for _, key := range keys {
		info, err := eng.Inspect(ctx, key)
		if err != nil {
			return fmt.Sprintf("waiting for %s for %s", table.Safe(key), age(waited))
		}
		ahead, found := 0, false
		for _, w := range info.Waiters {
			if found = person(w.Owner) == self; found {
				break
			}
			ahead++
		}
		if !found {
			continue // of a set, this key is not the one in the way
		}
		text := fmt.Sprintf("waiting for %s for %s", table.Safe(key), age(waited))
		if len(info.Holders) > 0 {
			h := info.Holders[0]
			text += fmt.Sprintf(", held by %s for %s", table.Safe(person(h.Owner)), heldFor(h))
		}
		if ahead > 0 {
			text += fmt.Sprintf(", %d ahead", ahead)
		}
		return text
	}
	return fmt.Sprintf("waiting for %s for %s", table.Safe(keys[0]), age(waited))
}
