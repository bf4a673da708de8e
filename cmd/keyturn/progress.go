package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// How soon, and how often, a wait is explained, and how long its end may take.
const (
	progressAfter    = time.Second
	progressTerminal = time.Second
	progressPipe     = 30 * time.Second
	progressEnd      = 100 * time.Millisecond
)

// progress says on standard error who holds the keys, and how many are ahead, until stop is called. stop waits until
// that is written, so that it does not erase what the program writes; but not for a reader: the key is held by then.
func (a *app) progress(ctx context.Context, eng *core.Engine, keys []string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		terminal := isTerminal(a.stderr.to)
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
			a.stderr.flush(progressEnd)
		case <-time.After(progressEnd): // the store does not say who waits
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
		ahead := slices.IndexFunc(info.Waiters, func(w driver.Waiter) bool { return person(w.Owner) == self })
		if ahead < 0 {
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
