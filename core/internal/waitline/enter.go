package waitline

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// FullError says which line was full. Key is empty where all lines together were.
type FullError struct {
	Key   string
	Limit int
}

// Error says where how many callers wait.
func (e *FullError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%d callers wait already", e.Limit)
	}
	return fmt.Sprintf("%d callers wait for %q already", e.Limit, e.Key)
}

// Caller is told, on its own goroutine, who keeps it waiting and how many callers were
// ahead of it in line.
type Caller interface {
	Blocked(held driver.HeldError, ahead int)
}

// Enter waits until the caller may ask the store for all that w wants. It then owes a
// [Lines.Leave]. Instead of that it may get, in w.Got, the record or the lease of another
// caller, and has no places any more. The lines are entered in key order, so that no two
// sets wait for each other.
//
// The caller gives up when ctx ends or w.MaxWait is over: the error is a
// *driver.HeldError, or matches driver.ErrUnavailable where a silent store kept it. The
// error is a *FullError where it was not let in, driver.ErrClosed after Close. After an
// error it has no places. By may be nil.
func (ls *Lines) Enter(ctx context.Context, w *Waiter, by Caller) error {
	for i, p := range w.places {
		waits, err := ls.join(p, i)
		if err != nil {
			ls.leave(w, w.places[:i], Answer{})
			return err
		}
		if !waits {
			continue
		}
		w.Waited = true
		for _, b := range w.places[:i] { // nobody else waits there because of this one
			b.goElsewhere()
		}
		told := p.tell(by)
		if !p.await(ctx) {
			err = p.verdict()
			ls.leave(w, w.places[:i+1], Answer{})
		}
		if !w.Got.Nothing() { // where both came, this is worth more than the error
			w.accept(by, told)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// join has the caller take the last place in the line for claim i, and reports whether
// it has to wait there.
func (ls *Lines) join(p *place, i int) (waits bool, err error) {
	w, key := p.waiter, p.claim.Key
	s := ls.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	switch {
	case s.closed:
		return false, driver.ErrClosed
	case l != nil && l.queue.n >= ls.cfg.MaxWaiters:
		return false, &FullError{Key: key, Limit: ls.cfg.MaxWaiters}
	case l == nil:
		l = s.open(key)
	}
	p.shard, p.line, p.ahead, p.joined = s, l, l.queue.n, w.Since
	if i > 0 {
		p.joined = time.Now() // it may have waited in the lines before
	}
	l.queue.push(p)
	if l.admission.next == nil {
		l.admission.next = p
		l.callForward()
	}
	if p.called {
		if len(w.places) == 1 { // a set asks later, see Asks
			p.ask(w.Since)
		}
		return false, nil
	}
	return true, l.seat(p)
}

// seat has p wait, or refuses it. The cap on all lines refuses only callers that would
// wait behind others: a flood on some keys must not shut out the callers of the rest.
func (l *line) seat(p *place) error {
	ls := l.shard.lines
	if n := ls.waiting.Add(1); p.ahead > 0 && n > int64(ls.cfg.MaxWaitersTotal) {
		l.remove(p)
		return &FullError{Limit: ls.cfg.MaxWaitersTotal}
	}
	p.goOn = make(chan struct{})
	if w := p.waiter; w.MaxWait > 0 {
		p.until = w.Since.Add(w.MaxWait)
		l.alarm.expect(p.until, l)
	}
	return nil
}

// await waits until the caller is to go on, and reports false when it gives up instead.
func (p *place) await(ctx context.Context) bool {
	select {
	case <-p.goOn:
		return !p.late
	case <-ctx.Done():
		return false
	}
}

// tell tells the caller who keeps it waiting, and returns the trace of that.
func (p *place) tell(by Caller) (trace string) {
	if by == nil {
		return ""
	}
	p.shard.mu.Lock()
	held := driver.HeldError{Key: p.claim.Key, Local: true} // it has just been given what it waits for
	if p.line != nil {
		held = p.line.evidence.holder(p.claim.Key)
	}
	p.shard.mu.Unlock()
	by.Blocked(held, p.ahead)
	return held.Trace
}

// verdict says what has kept the caller waiting.
func (p *place) verdict() error {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if p.line == nil { // it has just been given what it waits for
		return &driver.HeldError{Key: p.claim.Key, Local: true}
	}
	return p.line.evidence.verdict(p.claim.Key, p.joined, p.shard.lines.cfg.FairTime)
}

// accept takes what the caller was given. Told is the trace that it knows already: the
// caller that had the lease last may have come to the key later than this one.
func (w *Waiter) accept(by Caller, told string) {
	got := &w.Got
	switch {
	case got.Record != nil:
		got.Record = cloneRecord(got.Record)
	case by != nil && got.From != told && got.From != "":
		by.Blocked(driver.HeldError{Key: w.places[0].claim.Key, Holder: got.Grant.Owner, Trace: got.From, Local: true}, 0)
	}
}

// goElsewhere notes that the caller waits for another of its keys.
func (p *place) goElsewhere() {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if l := p.line; l != nil && l.admission.goElsewhere(p) {
		l.callForward()
	}
}
