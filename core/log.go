package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
)

// WithLogger makes the engine write to log. It passes the contexts of the operations concerned, so
// that a handler can add their traces. nil, and the default, is slog.Default() at that moment.
//
// The engine logs what an operator must know even without metrics:
//
//   - warn: a lease was lost. The line has its rule, owner, token and the reason; not its key,
//     which may name a person. At most ten lines in ten seconds; the next line says how many
//     losses had none.
//   - warn: the first request has failed, and the store has never answered. info: it answers.
//   - warn: the store is out, and the circuit is open ([WithCircuit]). info: it answers again,
//     after how long, and how many acquisitions were refused.
//   - warn: the store did not answer a release, so the key may stay locked. The line has the key,
//     the rule, the owner, whether the engine sends the release again, and after what time the
//     lease ends otherwise. As many lines as for losses. When no release is unanswered any more,
//     one line says what became of them: info if the store answered all, otherwise warn.
//   - warn: the store was restarted or has failed over, so all leases are renewed.
//   - warn: renewing many leases took longer than half of the time that it has, a third of the TTL.
//     As many lines as for losses.
//   - error: a hook panicked ([WithHooks]), with its stack. As many lines as for losses.
//   - warn: a lease or a record was taken away by force ([Engine.ForceRelease],
//     [Engine.Forget]), or may have been.
func WithLogger(log *slog.Logger) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.log = log
		return nil
	})
}

// logger is the logger of an engine.
type logger struct {
	to   *slog.Logger        // nil: the default logger at the time of the line
	show func(string) string // nil: keys are written as they are

	mu       sync.Mutex
	losses   ration
	releases ration // lines about unanswered releases
	panics   ration // lines about panics of hooks
	renewals ration // lines about renewals that took long
}

// ration bounds the number of lines of a kind.
type ration struct {
	since  time.Time // the time of the first of the last few lines
	n      int       // lines since then
	unsaid int       // events without a line so far
}

// An outage may lose every lease of a process at once. The watchdog itself writes the lines,
// and they must not keep it from the remaining leases.
const (
	rationLines = 10
	rationTime  = 10 * time.Second
)

func (l *logger) logger() *slog.Logger {
	if l.to == nil {
		return slog.Default()
	}
	return l.to
}

// write writes one line.
func (l *logger) write(ctx context.Context, level slog.Level, msg string, args ...any) {
	l.logger().Log(ctx, level, msg, args...)
}

// lost logs how a lease ended before its holder had finished. If a borrowed lease ended with
// its holder's, the holder's process logs it.
func (l *logger) lost(lease *Lease, err error) {
	var lost *LeaseLostError
	if !errors.As(err, &lost) || lost.Reason == driver.LossOuter {
		return
	}
	unsaid, ok := l.count(&l.losses)
	if !ok {
		return
	}
	args := []any{
		"reason", string(lost.Reason), "owner", lease.Owner(), "token", lease.Token(),
		"held", time.Since(lease.granted).Round(time.Millisecond),
	}
	if lease.terms.rule != "" {
		args = append(args, "rule", lease.terms.rule)
	}
	if lease.terms.shadow {
		args = append(args, "shadow", true)
	}
	if lost.Detail != "" {
		args = append(args, "detail", lost.Detail)
	}
	l.write(lease.ctx, slog.LevelWarn, "keyturn: lease lost", append(args, unsaid...)...)
}

// slow logs that renewals took long. It is before leases are lost that operators can do something:
// a longer TTL, fewer leases for each process, or a process with more time.
func (l *logger) slow(ctx context.Context, leases int, took, within time.Duration) {
	if unsaid, ok := l.count(&l.renewals); ok {
		args := []any{"leases", leases, "took", took.Round(time.Millisecond), "have", within.Round(time.Millisecond)}
		l.write(ctx, slog.LevelWarn, "keyturn: renewals take long, leases may be lost", append(args, unsaid...)...)
	}
}

// panicked logs the panic of a hook.
func (l *logger) panicked(hook string, p any, stack []byte) {
	unsaid, ok := l.count(&l.panics)
	if !ok {
		return
	}
	args := []any{"hook", hook, "panic", fmt.Sprint(p), "stack", string(stack)}
	l.write(context.Background(), slog.LevelError, "keyturn: a hook panicked", append(args, unsaid...)...)
}

// count reports whether another event of r's kind may have a line. That line ends with unsaid: how many had
// none since the last one.
func (l *logger) count(r *ration) (unsaid []any, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(r.since) >= rationTime {
		r.since, r.n = now, 0
	}
	if r.n >= rationLines {
		r.unsaid++
		return nil, false
	}
	if r.unsaid > 0 {
		unsaid = []any{"unsaid", r.unsaid}
	}
	r.n, r.unsaid = r.n+1, 0
	return unsaid, true
}

// owed logs that the store did not answer the release of d.
func (l *logger) owed(ctx context.Context, d *debt, err error) {
	unsaid, ok := l.count(&l.releases)
	if !ok {
		return
	}
	g := &d.grant
	key := g.Claims[0].Key
	if l.show != nil {
		key = l.show(key)
	}
	args := []any{"key", key}
	if len(g.Claims) > 1 {
		args = append(args, "claims", len(g.Claims))
	}
	if d.rule != "" {
		args = append(args, "rule", d.rule)
	}
	args = append(args, "owner", g.Owner, "token", g.FencingToken(), "error", err,
		"resend", d.kept, "free_in_at_most", max(time.Until(d.until), 0).Round(time.Millisecond))
	l.write(ctx, slog.LevelWarn, "keyturn: release unanswered, key may stay locked", append(args, unsaid...)...)
}

// debtsSettled logs how the unanswered releases ended, when none of them is owed any more, or when the
// engine closes.
func (l *logger) debtsSettled(ends map[observe.DebtState]int, took time.Duration) {
	level, message := slog.LevelInfo, "keyturn: all unanswered releases are settled"
	expired, dropped, closed := ends[observe.DebtExpired], ends[observe.DebtDropped], ends[observe.DebtClosed]
	if expired+dropped+closed > 0 {
		level = slog.LevelWarn
	}
	if closed > 0 {
		message = "keyturn: closed with unanswered releases, keys may stay locked"
	}
	l.write(context.Background(), level, message, "answered", ends[observe.DebtPaid],
		"expired", expired, "dropped", dropped, "closed", closed, "after", took.Round(time.Millisecond))
}
