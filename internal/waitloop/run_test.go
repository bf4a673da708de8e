package waitloop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/waitloop"
)

var check = checktest.That

// never is a time that no test waits for.
const never = time.Hour

// backend answers the questions of one request: the key is held until it is free.
type backend struct {
	free    time.Duration // 0: never
	silent  time.Duration // questions have no answer from then on; 0: they have
	lasts   time.Duration // how long such a question goes on when nobody waits for it; only it is silent then
	fails   error         // the answer to all questions after failsAt
	failsAt time.Duration
	within  time.Duration   // 0: never
	change  time.Duration   // the end of the holder, from now on; 0: not known
	every   time.Duration   // how often to look
	late    bool            // the first question does not get in line
	grants  map[string]bool // messages that are grants
	mailbox chan string

	clock     time.Time // when the wait began
	questions []time.Duration
	entered   int
	asleep    int
	withdrawn int
	left      time.Duration // when that was
}

func (b *backend) now() time.Duration { return time.Since(b.clock) }

func (b *backend) isSilent() bool { return b.silent != 0 && b.now() >= b.silent }

func (b *backend) Ask(ctx context.Context) (string, *waitloop.State, error) {
	b.questions = append(b.questions, b.now())
	switch {
	case b.fails != nil && b.now() >= b.failsAt:
		return "", nil, b.fails
	case b.isSilent():
		<-ctx.Done()
		silent := &waitloop.Unanswered{Err: &driver.UnavailableError{Op: "acquire", Err: errors.New("no answer")}}
		if b.lasts > 0 {
			over := make(chan struct{})
			silent.Over = over
			time.AfterFunc(b.lasts, func() { close(over) })
		}
		return "", nil, silent
	case b.free > 0 && b.now() >= b.free:
		return "the answer", nil, nil
	}
	s := &waitloop.State{
		Held: driver.HeldError{Key: "k", Holder: "holder", Ahead: len(b.questions), RetryAfter: 10 * time.Second, HeldFor: time.Second},
		At:   time.Now(), Within: never, Changes: [2]time.Duration{-1, -1},
	}
	if b.within > 0 {
		s.Within = b.within
	}
	if b.change > 0 {
		s.Changes[1] = b.change
	}
	return "", s, nil
}

func (b *backend) Enter(context.Context) bool {
	b.entered++
	return !b.late
}

func (b *backend) Messages() <-chan string { return b.mailbox }

func (b *backend) Accept(m string) (string, bool) { return m, b.grants[m] }

func (b *backend) Poll() (time.Duration, func()) {
	b.asleep++
	return b.every, func() { b.asleep-- }
}

func (b *backend) Withdraw(ctx context.Context) error {
	b.withdrawn++
	b.left = b.now()
	if b.isSilent() && b.lasts == 0 {
		<-ctx.Done()
		return &driver.UnavailableError{Op: "acquire", Err: ctx.Err()}
	}
	return nil
}

// outcome is what came of a wait, and when.
type outcome struct {
	answer string
	err    error
	after  time.Duration
}

// wait runs one on a clock of its own, for at most patience.
func wait(t *testing.T, b *backend, patience time.Duration, meanwhile func(*waitloop.Terms, context.CancelFunc)) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		life, closes := context.WithCancel(context.Background())
		defer closes()
		b.clock, b.mailbox = time.Now(), make(chan string, 1)
		terms := waitloop.Terms{Wait: true, Life: life}
		if meanwhile != nil {
			meanwhile(&terms, closes)
		}
		o.answer, o.err = waitloop.Run(ctx, terms, b)
		o.after = b.now()
		check(t, b.asleep == 0, "%d waits are counted as asleep after the end", b.asleep)
	})
	return o
}

func TestAnsweredAtOnce(t *testing.T) {
	b := &backend{fails: driver.ErrResultNotKept}
	o := wait(t, b, never, nil)
	check(t, errors.Is(o.err, driver.ErrResultNotKept) && o.after == 0 && b.entered+b.withdrawn == 0, "%+v, entered %d, withdrawn %d", o, b.entered, b.withdrawn)
}

// TestNoWaitNoAllocation: most requests are answered at once, and are to cost nothing here.
func TestNoWaitNoAllocation(t *testing.T) {
	b := &backend{clock: time.Now(), free: 1, questions: make([]time.Duration, 0, 200)}
	terms := waitloop.Terms{Wait: true, Life: context.Background()}
	n := testing.AllocsPerRun(100, func() {
		if _, err := waitloop.Run(context.Background(), terms, b); err != nil {
			t.Error(err)
		}
	})
	check(t, n == 0, "%v allocations", n)
}

func TestRefusedWithoutWait(t *testing.T) {
	b := &backend{}
	o := wait(t, b, never, func(terms *waitloop.Terms, _ context.CancelFunc) { terms.Wait = false })
	var held *driver.HeldError
	check(t, errors.As(o.err, &held) && held.Holder == "holder" && b.entered == 0 && len(b.questions) == 1, "%+v after %d questions", o, len(b.questions))
}

// TestLooks: when a wait looks by itself, if nobody tells it anything.
func TestLooks(t *testing.T) {
	const jitter = 21 * time.Millisecond
	for name, tc := range map[string]struct {
		backend  backend
		min, max time.Duration
	}{
		"to keep its place":          {backend{free: 1, within: 3 * time.Second}, 3 * time.Second, 3 * time.Second},
		"when the holder is over":    {backend{free: 1, change: time.Second}, time.Second, time.Second + jitter},
		"when it polls":              {backend{free: 1, every: time.Second}, 500 * time.Millisecond, 1500 * time.Millisecond},
		"at the earliest of these":   {backend{free: 1, every: time.Minute, within: never, change: time.Second}, time.Second, time.Second + jitter},
		"again and again until then": {backend{free: 25 * time.Second, within: 10 * time.Second}, 30 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			o := wait(t, &tc.backend, never/2, nil)
			check(t, o.err == nil && o.after >= tc.min && o.after <= tc.max && tc.backend.withdrawn == 0, "%+v after questions at %v", o, tc.backend.questions)
		})
	}
}

// TestGetsInLine: a first question that did not get in line is put again at once.
func TestGetsInLine(t *testing.T) {
	b := &backend{late: true}
	wait(t, b, time.Second, nil)
	check(t, len(b.questions) == 2 && b.questions[1] == 0, "questions at %v", b.questions)
}

// TestMessages: one that is a grant needs no question, any other calls for one.
func TestMessages(t *testing.T) {
	for m, questions := range map[string]int{"a grant": 1, "a hint": 2} {
		b := &backend{free: time.Second, grants: map[string]bool{"a grant": true}}
		o := wait(t, b, never/2, func(*waitloop.Terms, context.CancelFunc) {
			mailbox := b.mailbox
			time.AfterFunc(time.Second, func() { mailbox <- m })
		})
		check(t, o.err == nil && o.after == time.Second && len(b.questions) == questions && b.withdrawn == 0, "%s: %+v, %d questions", m, o, len(b.questions))
	}
}

// TestOnHeld is told each time that the backend says so, once the request is in line.
func TestOnHeld(t *testing.T) {
	for _, late := range []bool{false, true} {
		told := 0
		b := &backend{free: 25 * time.Second, within: 10 * time.Second, late: late}
		o := wait(t, b, never, func(terms *waitloop.Terms, _ context.CancelFunc) {
			terms.OnHeld = func(held driver.HeldError) {
				told++
				check(t, held.Ahead == len(b.questions) && (!late || len(b.questions) >= 2), "told %+v after %d questions", held, len(b.questions))
			}
		})
		check(t, o.err == nil && told == 3, "%+v, told %d times", o, told)
	}
}

// TestEndOfPatience: A8.
func TestEndOfPatience(t *testing.T) {
	const patience = 4 * time.Second
	for name, c := range map[string]struct {
		backend   backend
		want      error
		withdrawn int
		after     time.Duration
	}{
		"behind a holder":               {backend{}, driver.ErrHeld, 1, patience},
		"the backend has fallen silent": {backend{silent: time.Second}, driver.ErrUnavailable, 1, patience + waitloop.Grace},
		"during a question":             {backend{silent: time.Second, within: time.Second}, driver.ErrUnavailable, 1, patience + waitloop.Grace},
		// Otherwise the question could put the request back in the queue.
		"withdraws when the question is over": {
			backend{silent: time.Second, within: time.Second, lasts: 100 * time.Millisecond}, driver.ErrHeld, 1, patience + 100*time.Millisecond,
		},
		"withdraws although a connection hangs": {
			backend{silent: time.Second, within: time.Second, lasts: never}, driver.ErrHeld, 1, patience + waitloop.Grace/2,
		},
		"never answered": {backend{silent: -1}, driver.ErrUnavailable, 0, patience},
		"an error of the backend's own": {
			backend{within: time.Second, fails: &driver.DeadlockError{Key: "k"}, failsAt: 2 * time.Second}, driver.ErrWouldDeadlock, 0, 2 * time.Second,
		},
	} {
		b := &c.backend
		o := wait(t, b, patience, nil)
		good := errors.Is(o.err, c.want) && (c.want == driver.ErrHeld) == errors.Is(o.err, driver.ErrHeld) && o.after == c.after
		inTime := c.want != driver.ErrHeld || b.left == c.after
		check(t, good && b.withdrawn == c.withdrawn && inTime, "%s: %+v, withdrawn %d times, at %v", name, o, b.withdrawn, b.left)
		var held *driver.HeldError
		if name == "behind a holder" && errors.As(o.err, &held) { // what was known when the backend said it, as of now
			check(t, held.RetryAfter == 6*time.Second && held.HeldFor == 5*time.Second, "retry after %v, held for %v", held.RetryAfter, held.HeldFor)
		}
	}
	var late *driver.HeldError // the holder stays for longer than it said
	o := wait(t, &backend{}, time.Minute, nil)
	check(t, errors.As(o.err, &late) && late.RetryAfter == 0, "%+v, retry after %v", o, late.RetryAfter)
}

// TestClose ends a wait at once, whatever it was doing (C1).
func TestClose(t *testing.T) {
	for name, b := range map[string]*backend{"asleep": {}, "asking": {silent: time.Second, within: time.Second}} {
		o := wait(t, b, never, func(_ *waitloop.Terms, closes context.CancelFunc) { time.AfterFunc(2*time.Second, closes) })
		check(t, errors.Is(o.err, driver.ErrClosed) && o.after <= 2*time.Second+waitloop.Grace && b.withdrawn == 1, "%s: %+v, withdrawn %d times", name, o, b.withdrawn)
	}
}
