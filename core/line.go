package core

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// lines holds one line of waiters per key of this process. Only the head of a
// line asks the store, so a store sees at most one waiter per key and process,
// however many goroutines want the key.
type lines struct {
	most, mostTotal int // callers per line, and in all of them

	mu    sync.Mutex
	byKey map[string]*line
	total int // callers in all lines
}

// line also keeps what the store last told a head, because those who time out
// behind it must say whether a holder or a silent store kept them waiting.
type line struct {
	tickets  list.List // of *ticket; the front one asks the store
	asking   bool      // the store was asked and has not answered since
	answered time.Time // when the store last answered a head
	held     HeldError // who was in the way then
	outage   error     // set while the last head found the store out
}

// ticket is one caller's place in a line.
type ticket struct {
	key    string
	line   *line
	place  *list.Element
	ahead  int // callers in front when it joined
	joined time.Time
	head   chan struct{} // closed when it becomes the head; nil: it came first
}

func newLines(most, mostTotal int) *lines {
	return &lines{most: most, mostTotal: mostTotal, byKey: make(map[string]*line)}
}

// enter waits until the caller is the head of key's line; it then owes a leave.
// The error is a *TooManyWaitersError or, when ctx ended first, a *HeldError or
// one that matches ErrUnavailable. Blocked is told who is in the way of somebody
// who does not come first.
func (ls *lines) enter(ctx context.Context, key string, blocked func(HeldError, int)) (*ticket, error) {
	t, err := ls.join(key)
	if err != nil || t.head == nil {
		return t, err
	}
	blocked(ls.inTheWay(t), t.ahead)
	select {
	case <-t.head:
		return t, nil
	case <-ctx.Done():
		err := ls.obstacle(t)
		ls.leave(t, errSilent)
		return nil, err
	}
}

func (ls *lines) join(key string) (*ticket, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	switch {
	case l != nil && l.tickets.Len() >= ls.most:
		return nil, &TooManyWaitersError{Key: key, Limit: ls.most}
	case ls.total >= ls.mostTotal:
		return nil, &TooManyWaitersError{Limit: ls.mostTotal}
	case l == nil:
		l = &line{}
		ls.byKey[key] = l
	}
	ls.total++
	t := &ticket{key: key, line: l, ahead: l.tickets.Len(), joined: time.Now()}
	if l.tickets.Len() > 0 {
		t.head = make(chan struct{})
	}
	t.place = l.tickets.PushBack(t)
	return t, nil
}

// asks notes that the head now asks the store.
func (ls *lines) asks(t *ticket) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	t.line.asking = true
}

// told notes that the store keeps the head waiting, and for whom.
func (ls *lines) told(t *ticket, held HeldError) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	t.line.heard(held)
}

func (l *line) heard(held HeldError) {
	l.asking, l.answered, l.held, l.outage = false, time.Now(), held, nil
}

// errSilent stands for what a store said that was not asked, or cut short.
var errSilent = errors.New("keyturn: the store said nothing")

// leave gives up the place and, if it was the head's, calls the next one
// forward. said is the store's answer.
func (ls *lines) leave(t *ticket, said error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := t.line
	var held *HeldError
	switch {
	case said == errSilent, errors.Is(said, context.Canceled), errors.Is(said, context.DeadlineExceeded):
	case errors.Is(said, ErrUnavailable):
		l.outage = said
	case errors.As(said, &held):
		l.heard(*held)
	default: // granted, most likely: who is in the way now is not known yet
		l.heard(HeldError{})
	}
	wasHead := l.tickets.Front() == t.place
	l.tickets.Remove(t.place)
	ls.total--
	switch {
	case l.tickets.Len() == 0:
		delete(ls.byKey, t.key)
	case wasHead:
		close(l.tickets.Front().Value.(*ticket).head)
	}
}

// obstacle says what has kept t waiting. Only a store that was asked can be
// silent; and one that told the head to wait owes no further word, however long
// ago that was: it answers when the key is free, or when it finds itself out.
func (ls *lines) obstacle(t *ticket) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := t.line
	switch {
	case l.outage != nil:
		return l.outage
	case l.asking && l.answered.Before(t.joined):
		return &UnavailableError{Op: "acquire", Err: errors.New("no answer while waiting in line")}
	}
	held := l.inTheWay(t.key)
	return &held
}

// inTheWay is who keeps the line waiting, as far as anybody in it was told.
func (ls *lines) inTheWay(t *ticket) HeldError {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return t.line.inTheWay(t.key)
}

func (l *line) inTheWay(key string) HeldError {
	return HeldError{Key: key, Holder: l.held.Holder, RetryAfter: l.held.RetryAfter, Trace: l.held.Trace}
}
