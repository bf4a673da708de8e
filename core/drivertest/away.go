package drivertest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// looksAway checks that those who look at a key, or free it, are told that the server is away.
func looksAway(t *testing.T, eng *core.Engine) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	for name, look := range map[string]func() error{
		"Inspect": func() error { return second(eng.Inspect(ctx, "k")) },
		// Not of "k": the store may carry it out when the server is back, although its caller has gone.
		"ForceRelease": func() error { return second(eng.ForceRelease(ctx, "other", "away")) },
		"List": func() (err error) {
			for _, err = range eng.List(ctx, "") {
			}
			return err
		},
	} {
		all.Go(func() {
			if err := look(); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s without a server: %v", name, err)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// AwayAtStart tests a store that is made while its server is away. open makes the store, by its URL
// if it has one, and heal brings the server back. A program starts all the same and within a bound,
// its readiness probe fails and then succeeds, and the log has a line for either.
func AwayAtStart(t *testing.T, open func() (driver.Store, error), heal func()) {
	began := time.Now()
	store, err := open()
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("opening took %v", took)
	}
	log := &lines{}
	eng, err := core.New(store, core.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(context.Background()); err != nil {
			t.Errorf("closing: %v", err)
		}
	}()
	began = time.Now()
	if err := eng.Ping(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Ping without a server: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Ping took %v", took)
	}
	if _, err := eng.TryAcquire(t.Context(), "k"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	looksAway(t, eng)
	heal()
	for deadline := time.Now().Add(30 * time.Second); eng.Ping(t.Context()) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server is back, and Ping fails")
		}
	}
	if err := eng.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"store has not answered yet", "store answers"} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d lines with %q in\n%s", n, want, log)
		}
	}
}

// lines is a log that goroutines share.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}
