package circuit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// The states of a part.
const (
	well    int32 = iota // no request has failed since the last answer
	failing              // some have
	out                  // the circuit is open
)

// answerGrain is how precisely lastAnswer is kept. All callers share it: if every answer wrote
// to it, processors would wait for each other.
const answerGrain = time.Millisecond

// answered notes an answer to a request for a lease, which has the context ctx.
func (p *part) answered(ctx context.Context, now time.Time) {
	p.heard(now)
	if p.state.Load() != well {
		p.close(ctx, now)
	}
	p.cfg.Answered()
}

// answeredHolder notes an answer to a request about a lease that is held.
func (p *part) answeredHolder() {
	p.heard(time.Now())
	if p.state.Load() == failing {
		p.recovered()
	}
	p.cfg.Answered()
}

// heard notes when the store answered anything. While no request fails, lastAnswer may stay
// behind by answerGrain: then the circuit opens that much too early at most.
func (p *part) heard(now time.Time) {
	last := p.lastAnswer.Load()
	if last != nil && now.Sub(*last) < answerGrain && p.state.Load() == well {
		return
	}
	at := now                              // a copy, so that only this path allocates
	p.lastAnswer.CompareAndSwap(last, &at) // if another caller was faster, its time is as good
}

// recovered notes that the store is not silent after all, if the circuit is closed.
func (p *part) recovered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.failedAt = time.Time{}
		p.state.Store(well)
	}
}

// close closes the circuit, if it is open, and forgets what has failed.
func (p *part) close(ctx context.Context, now time.Time) {
	p.mu.Lock()
	wasOpen, after, refused, missed := p.open != nil, now.Sub(p.openedAt), p.refused, p.missed
	p.failedAt, p.open, p.probing, p.refused, p.missed = time.Time{}, nil, 0, 0, time.Time{}
	p.state.Store(well)
	p.mu.Unlock()
	switch {
	case !missed.IsZero():
		p.log(ctx, slog.LevelInfo, "keyturn: store answers", "after", now.Sub(missed).Round(time.Millisecond), "refused", refused)
	case wasOpen:
		p.log(ctx, slog.LevelInfo, "keyturn: store answers again, circuit closed",
			"after", after.Round(time.Millisecond), "refused", refused)
	}
}

// failed notes that a request failed because the store is out.
func (p *part) failed(ctx context.Context, began time.Time, probe int, err error) {
	first, never := p.misses()
	opens := p.opens(began, probe, err)
	switch {
	case first:
		p.log(ctx, slog.LevelWarn, "keyturn: store has not answered yet, so requests fail", "error", err)
	case opens && !never:
		p.log(ctx, slog.LevelWarn, "keyturn: store is out, circuit open", "error", err)
	}
}

// misses notes a failure, and reports whether the store has never answered, and whether the failure
// is the first one then. The log has that at once: it is most likely a wrong address, and nobody
// has seen the service work yet.
func (p *part) misses() (first, never bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastAnswer.Load() != nil {
		return false, !p.missed.IsZero()
	}
	if first = p.missed.IsZero(); first {
		p.missed = time.Now()
		p.state.CompareAndSwap(well, failing) // so that the first answer is noticed
	}
	return first, true
}

// opens notes the failure, and reports whether it opens the circuit.
func (p *part) opens(began time.Time, probe int, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.open != nil && probe != 0 && probe == p.probing:
		p.probeAt = now.Add(p.pause)
		p.pause = min(2*p.pause, longestPause)
		return false
	case p.cfg.Silence == 0, p.open != nil, p.answeredAfter(began):
		return false
	}
	// A store that nobody asks is not silent: two failures an hour apart are two broken
	// connections.
	if began.Before(p.silent) || began.Sub(p.failedAt) > p.cfg.Silence {
		p.silent = began
	}
	p.failedAt = now
	p.state.Store(failing)
	if now.Sub(p.silent) < p.cfg.Silence {
		return false
	}
	if out := (*driver.UnavailableError)(nil); errors.As(err, &out) {
		err = out.Err // the new error below adds the rest again
	}
	// The cause becomes text: it belongs to another caller's request, so errors.Is must not
	// find it.
	p.open = &driver.UnavailableError{Op: "acquire", Err: fmt.Errorf("%w: %v", ErrOpen, err)}
	p.state.Store(out)
	p.openedAt = now
	p.pause = firstPause
	p.probeAt = now.Add(p.pause)
	return true
}

// answeredAfter reports whether the store has answered anything since t.
func (p *part) answeredAfter(t time.Time) bool {
	last := p.lastAnswer.Load()
	return last != nil && t.Before(*last)
}
