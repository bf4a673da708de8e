package core

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// WithLogger has the engine write to log, with the contexts of those concerned, so
// that a handler can add their trace. What it logs is what an operator has to know
// also without metrics:
//
//   - at level warn, that a lease was lost: its rule, owner, token and the reason,
//     not its key, which may name a person. Ten in ten seconds at most; the next line
//     then says how many there were without one.
//   - at level warn, that the store is out and the circuit open ([WithCircuit]); at
//     level info, that it answers again, after how long, and how many were refused.
//   - at level warn, that a lease or a record was taken away by force
//     ([Engine.ForceRelease], [Engine.Forget]), or that it may have been.
//
// nil, and the default: slog.Default() at that moment.
func WithLogger(log *slog.Logger) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.log = log
		return nil
	})
}

// logger is an engine's.
type logger struct {
	to *slog.Logger // nil: the default one of the moment

	mu     sync.Mutex
	since  time.Time // the first loss of the last few
	losses int       // since then
	unsaid int       // of those, also from before
}

// An outage may lose every lease of a process at once, and the watchdog writes
// the lines itself: they must not keep it from the leases that are left.
const (
	lossLines = 10
	lossTime  = 10 * time.Second
)

// write writes one line.
func (l *logger) write(ctx context.Context, level slog.Level, msg string, args ...any) {
	to := l.to
	if to == nil {
		to = slog.Default()
	}
	to.Log(ctx, level, msg, args...)
}

// lost says how a lease ended before its holder was done. Of one that was borrowed
// and ended with its holder's, the holder's process says so.
func (l *logger) lost(lease *Lease, err error) {
	var lost *LeaseLostError
	if !errors.As(err, &lost) || lost.Reason == LossOuter {
		return
	}
	unsaid, ok := l.countLoss()
	if !ok {
		return
	}
	args := []any{
		"reason", string(lost.Reason), "owner", lease.Owner(), "token", lease.Token(),
		"held", time.Since(lease.granted).Round(time.Millisecond),
	}
	if lease.Rule() != "" {
		args = append(args, "rule", lease.Rule())
	}
	if lost.Detail != "" {
		args = append(args, "detail", lost.Detail)
	}
	if unsaid > 0 {
		args = append(args, "unsaid", unsaid)
	}
	l.write(lease.ctx, slog.LevelWarn, "keyturn: lease lost", args...)
}

// countLoss says whether a loss may have a line, and how many had none since the
// last one.
func (l *logger) countLoss() (unsaid int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.since) >= lossTime {
		l.since, l.losses = now, 0
	}
	if l.losses >= lossLines {
		l.unsaid++
		return 0, false
	}
	l.losses++
	unsaid, l.unsaid = l.unsaid, 0
	return unsaid, true
}
