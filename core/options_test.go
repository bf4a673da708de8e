package core_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/store/memstore"
)

// policy bundles options.
func policy(t testing.TB, opts ...core.CallOption) core.Policy {
	t.Helper()
	p, err := core.NewPolicy(opts...)
	must(t, err)
	return p
}

// Of several options about one matter the last one counts: in a call, in a policy, at its place among a
// call's options, and in New. A call's options come after New's.
func TestTheLastOptionCounts(t *testing.T) {
	adaptive := core.WithAdaptiveTTL(40*time.Second, 50*time.Second)
	const adaptively = 50 * time.Second
	ttl, wait, failFast := core.WithTTL(time.Hour), core.WithMaxWait(time.Second), core.WithFailFast()
	for name, tc := range map[string]struct {
		engine []core.EngineOption
		call   []core.CallOption
		ttl    time.Duration
		waits  time.Duration
	}{
		"defaults":                 {nil, nil, defaultTTL, 30 * time.Second},
		"New":                      {[]core.EngineOption{ttl, failFast}, nil, time.Hour, 0},
		"New, the same twice":      {[]core.EngineOption{core.WithTTL(time.Minute), ttl, wait, core.WithMaxWait(2 * time.Second)}, nil, time.Hour, 2 * time.Second},
		"New, one by another":      {[]core.EngineOption{ttl, failFast, adaptive, wait}, nil, adaptively, time.Second},
		"New, the other way":       {[]core.EngineOption{adaptive, wait, ttl, failFast}, nil, time.Hour, 0},
		"call":                     {[]core.EngineOption{ttl, failFast}, []core.CallOption{adaptive, wait}, adaptively, time.Second},
		"call, the same twice":     {nil, []core.CallOption{core.WithTTL(time.Minute), ttl, wait, core.WithMaxWait(2 * time.Second)}, time.Hour, 2 * time.Second},
		"call, one by another":     {nil, []core.CallOption{ttl, failFast, adaptive, wait}, adaptively, time.Second},
		"call, the other way":      {nil, []core.CallOption{adaptive, wait, ttl, failFast}, time.Hour, 0},
		"policy":                   {[]core.EngineOption{ttl, failFast}, []core.CallOption{policy(t, adaptive, wait)}, adaptively, time.Second},
		"policy, then an option":   {nil, []core.CallOption{policy(t, adaptive, wait), ttl, failFast}, time.Hour, 0},
		"an option, then a policy": {nil, []core.CallOption{ttl, failFast, policy(t, adaptive, wait)}, adaptively, time.Second},
		"a policy within a policy": {nil, []core.CallOption{policy(t, adaptive, policy(t, ttl, failFast), wait)}, time.Hour, time.Second},
		"two policies":             {nil, []core.CallOption{policy(t, adaptive, failFast), policy(t, wait)}, adaptively, time.Second},
		"a policy, and a zero one": {nil, []core.CallOption{policy(t, ttl, failFast), core.Policy{}}, time.Hour, 0},
		"options of other matters": {nil, []core.CallOption{ttl, failFast, core.WithRule("a"), core.WithMaxHold(time.Second)}, time.Hour, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			eng := newEngine(t, memstore.New(), tc.engine...)
			l := mustAcquire(t, eng, "k", tc.call...)
			if l.TTL() != tc.ttl {
				t.Errorf("TTL %v, want %v", l.TTL(), tc.ttl)
			}
			began := time.Now()
			_, err := eng.Acquire(bg, "k", tc.call...)
			if !errors.Is(err, core.ErrHeld) || errors.Is(err, core.ErrWaitTimeout) != (tc.waits > 0) || time.Since(began) != tc.waits {
				t.Errorf("error %v after %v, want to wait for %v", err, time.Since(began), tc.waits)
			}
			mustRelease(t, l)
		})
	}
}

func TestTheLastLoggerCounts(t *testing.T) {
	var first, second bytes.Buffer
	text := func(w io.Writer) core.EngineOption { return core.WithLogger(slog.New(slog.NewTextHandler(w, nil))) }
	author.Logger(newEngine(t, memstore.New(), text(&first), text(&second))).Info("hello")
	if first.Len() > 0 || second.Len() == 0 {
		t.Errorf("first logger: %q, second: %q", first.String(), second.String())
	}
}
