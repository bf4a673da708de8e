package waitline

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// FullError says which line was full. Key is empty if all lines together were.
type FullError struct {
	Key   string
	Limit int
}

// Error is for nobody to read: Engine.refusal makes the caller's error.
func (e *FullError) Error() string { return "too many callers wait" }

// Caller is told, on its own goroutine, whom it waits for and how many callers were ahead of it
// in line.
type Caller interface {
	Blocked(held driver.HeldError, ahead int)
}

// Enter waits until the caller may ask the store for everything that w wants. The caller then
// owes a [Lines.Leave]. Instead, another caller may give it a record or a lease, in w.Got; it
// then has no places any more. The lines are entered in key order, so that no two sets
// deadlock.
//
// The caller gives up when ctx ends or w.MaxWait is over. The error is then a
// *driver.HeldError, or matches driver.ErrUnavailable if a silent store kept it waiting. If the
// line is full, the error is a *FullError. After an error the caller has no places. by may be nil.
//
// A caller that joins after [Lines.Close] gets driver.ErrClosed. The callers that wait at that
// moment get the error of a caller that gives up. Engine.refusal in core/refusal.go makes
// ErrClosed of it.
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
		for _, b := range w.places[:i] { // nobody else waits there because of this caller
			b.markElsewhere()
		}
		told := p.tell(by)
		if !p.await(ctx) {
			err = p.verdict()
			ls.leave(w, w.places[:i+1], Answer{})
		}
		if !w.Got.Nothing() { // if both came, the lease or record counts
			w.accept(by, told)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// join puts the caller at the end of the line for claim i, and reports whether it has to wait
// there.
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
		p.joined = time.Now() // it may have waited in other lines before
	}
	l.queue.push(p)
	if l.admission.next == nil {
		l.admission.next = p
		l.admitNext()
	}
	if p.admitted {
		if len(w.places) == 1 { // a set asks later: see Asks
			p.requestSent(w.Since)
		}
		return false, nil
	}
	return true, l.seat(p)
}

// seat makes p wait, or refuses it. The cap on all lines refuses only a caller that has others
// in front of it. Otherwise a flood on some keys would shut out the callers of all other keys.
func (l *line) seat(p *place) error {
	ls := l.shard.lines
	if n := ls.waiting.Add(1); p.ahead > 0 && n > int64(ls.cfg.MaxWaitersTotal) {
		l.remove(p)
		return &FullError{Limit: ls.cfg.MaxWaitersTotal}
	}
	p.ready = make(chan struct{})
	if w := p.waiter; w.MaxWait > 0 {
		p.until = w.Since.Add(w.MaxWait)
		l.alarm.expect(p.until, l)
	}
	return nil
}

// await waits until the caller may go on. It reports false if the caller gives up instead.
func (p *place) await(ctx context.Context) bool {
	select {
	case <-p.ready:
		return !p.gaveUp
	case <-ctx.Done():
		return false
	}
}

// tell tells the caller whom it waits for, and returns that holder's trace.
func (p *place) tell(by Caller) (trace string) {
	if by == nil {
		return ""
	}
	p.shard.mu.Lock()
	held := driver.HeldError{Key: p.claim.Key, Local: true} // no line: it has just been given what it waits for
	if p.line != nil {
		held = p.line.evidence.holder(p.claim.Key)
	}
	p.shard.mu.Unlock()
	by.Blocked(held, p.ahead)
	return held.Trace
}

// verdict returns the error that says what kept the caller waiting.
func (p *place) verdict() error {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if p.line == nil { // no line: it has just been given what it waits for
		return &driver.HeldError{Key: p.claim.Key, Local: true}
	}
	return p.line.evidence.verdict(p.claim.Key, p.waiter.Since, p.joined)
}

// accept tells the caller who had the lease before it. told is the trace that it knows already:
// the last holder may have come to the key later than this caller.
func (w *Waiter) accept(by Caller, told string) {
	got := &w.Got
	switch {
	case got.Record != nil:
		got.Record = cloneRecord(got.Record)
	case by != nil && got.From != told && got.From != "":
		by.Blocked(driver.HeldError{Key: w.places[0].claim.Key, Holder: got.Grant.Owner, Trace: got.From, Local: true}, 0)
	}
}

// markElsewhere notes that the caller waits for another of its keys.
func (p *place) markElsewhere() {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if l := p.line; l != nil && l.admission.markElsewhere(p) {
		l.admitNext()
	}
}
