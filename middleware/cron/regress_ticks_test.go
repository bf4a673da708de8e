package lockcron_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockcron "github.com/keyturn/keyturn/middleware/cron"
	"github.com/keyturn/keyturn/store/memstore"
)

// coarse is a store without short leases, as etcd is one.
type coarse struct{ *memstore.Store }

func (s coarse) Describe() driver.Description {
	d := s.Store.Describe()
	d.TTLs = driver.TTLs{Least: 2 * time.Second, Step: time.Second}
	return d
}

// TestTicksOnACoarseStore: a job every second ran in 6 of 20 ticks, and nothing said why.
func TestTicksOnACoarseStore(t *testing.T) {
	for least, warns := range map[time.Duration]bool{0: true, time.Minute: false} {
		var log bytes.Buffer
		eng, err := core.New(coarse{memstore.New()}, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		var opts []core.CallOption
		if least > 0 {
			opts = append(opts, core.WithMinHold(least))
		}
		if _, err := lockcron.Serialize(t.Context(), eng, "cron:job", opts...); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "least_hold=2s"); got != warns {
			t.Errorf("min hold %v: %s", least, log.String())
		}
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestContextAndLogger: jobs have the program's context, and the engine's logger.
func TestContextAndLogger(t *testing.T) {
	type key struct{}
	var log bytes.Buffer
	eng, err := core.New(memstore.New(), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close(context.Background()) }()
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	wrap, err := lockcron.Serialize(ctx, eng, "cron:job", core.WithMinHold(0))
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	job := cron.NewChain(wrap).Then(lockcron.Func(func(ctx context.Context) error {
		runs++
		if ctx.Value(key{}) != "value" {
			t.Error("another context")
		}
		return errors.New("oops")
	}))
	job.Run()
	cancel()
	job.Run()
	if runs != 1 || !strings.Contains(log.String(), "job failed") {
		t.Errorf("%d runs, log %s", runs, log.String())
	}
}
