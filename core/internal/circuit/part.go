package circuit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// ErrOpen is matched by the error of a request that was refused without having been
// sent. That error also matches driver.ErrUnavailable.
var ErrOpen = errors.New("keyturn: circuit open")

// part is the state of a part of the store that fails independently: a circuit breaker (M.
// Nygard, "Release It!", 2007). The package's comment says what opens and closes it.
type part struct {
	cfg  *Config
	name string // "": the store has one part

	state      atomic.Int32              // written with mu; most callers read it and need not take mu
	lastAnswer atomic.Pointer[time.Time] // to any request; nil: none yet

	mu       sync.Mutex
	silent   time.Time     // when the first request was sent that has failed since lastAnswer
	failedAt time.Time     // when the last of them failed; zero: none failed
	missed   time.Time     // when a request failed although nothing was ever answered; zero: none did
	open     error         // the error for callers; nil: closed
	openedAt time.Time     // when the circuit opened
	refused  int           // number of callers refused since then
	probing  int           // number of the probe under way; 0: none
	probes   int           // number of probes so far
	probeAt  time.Time     // when the next probe may be sent
	pause    time.Duration // the pause after the next probe that fails
}

// The pauses are short, because the store may come back at the beginning of one: a refused caller may
// have no second try, and a rule that runs work unlocked in an outage should stop doing so soon after
// it. Service is back after the last pause, and after a probe that was sent just before.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// ProbeTime is how long a probe may wait for an answer. After that the next probe may find
// another connection, or another server.
const ProbeTime = 2 * time.Second

// FairTime is how much time a request must have had before its deadline for its failure to say
// anything about the store.
const FairTime = 100 * time.Millisecond

// CutShort reports whether ctx ended within [FairTime] of began. The failure of such a request
// says nothing about the store.
func CutShort(ctx context.Context, began time.Time) bool {
	return ctx.Err() != nil && time.Since(began) < FairTime
}

// errNoReturn is the error of a request that panicked instead of returning.
var errNoReturn = errors.New("the store did not return")

// ask sends one request, unless the circuit is open. It learns from the result if concerns says
// that an error is about this part; nil: every error is.
func (p *part) ask(ctx context.Context, began time.Time, req driver.Request, concerns func(error) bool, ask Ask) (grant driver.Grant, rec *driver.Record, answered time.Time, err error) {
	probe, err := p.admit()
	if err != nil {
		return driver.Grant{}, nil, time.Now(), err
	}
	defer func() {
		answered = time.Now()
		p.learn(ctx, began, answered, err, concerns == nil || concerns(err), probe)
	}()
	bounded := ctx
	if probe != 0 {
		var heard, cancel func()
		bounded, heard, cancel = untilHeard(ctx, ProbeTime)
		defer cancel()
		told := req.OnHeld
		req.OnHeld = func(held driver.HeldError) {
			heard()
			if told != nil {
				told(held)
			}
		}
	}
	err = errNoReturn // unless the store returns
	grant, rec, err = ask(bounded, req)
	return grant, rec, answered, err
}

// untilHeard returns a context that ends after d. If heard is called before that, it ends only
// with its parent.
func untilHeard(ctx context.Context, d time.Duration) (_ context.Context, heard, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { end(fmt.Errorf("no answer within %v", d)) })
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); end(nil) }
}

// refuses is [Breaker.Refuses] for one part.
func (p *part) refuses() error {
	if p.state.Load() != out {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusal()
}

// refusal counts a refused caller. Needs mu.
func (p *part) refusal() error {
	if p.open != nil && (p.probing != 0 || time.Now().Before(p.probeAt)) {
		p.refused++
		return p.open
	}
	return nil
}

// admit is refuses for a caller that is about to ask. probe is the number of the probe if the
// request is one. A probe that is told to wait closes the circuit and goes on. Its number
// distinguishes it from later probes.
func (p *part) admit() (probe int, err error) {
	if p.state.Load() != out {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusal(); err != nil {
		return 0, err
	}
	if p.open == nil {
		return 0, nil
	}
	p.probes++
	p.probing = p.probes
	return p.probing, nil
}

// learn notes the result of a request, and the end of a probe. A grant, a record and a holder
// are answers. An outage is a failure, unless the caller had left too little time for an
// answer. A result that does not concern this part is ignored.
func (p *part) learn(ctx context.Context, began, answered time.Time, err error, concerned bool, probe int) {
	switch {
	case !concerned:
	case err == nil, errors.Is(err, driver.ErrHeld), refused(err):
		p.answered(ctx, answered)
	case !errors.Is(err, driver.ErrUnavailable), errors.Is(ctx.Err(), context.Canceled), CutShort(ctx, began):
	default:
		p.failed(ctx, began, probe, err)
	}
	if probe == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if probe == p.probing {
		p.probing = 0
	}
}

// refused reports whether the store answered that it cannot serve. Its callers get that error
// at once, with the cause.
func refused(err error) bool {
	var out *driver.UnavailableError
	return errors.As(err, &out) && out.Refused
}

// askNext is [Breaker.AskNext] for one part.
func (p *part) askNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil {
		p.probeAt = time.Now()
	}
}

// log writes a line, with the name of the part.
func (p *part) log(ctx context.Context, level slog.Level, message string, args ...any) {
	if p.name != "" {
		args = append(args, "part", p.name)
	}
	p.cfg.Log(ctx, level, message, args...)
}
