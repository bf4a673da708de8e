package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// inbox is where other processes tell this one that a lock has been passed to
// one of its waiters: one channel and one connection, however many wait. It is
// opened by the first who has to wait.
//
// Messages may be lost. So whoever waits looks for itself now and then, and at
// once when the subscription has been made again.
type inbox struct {
	store   *Store
	channel string
	silence time.Duration // after so long without a word the server is asked for one

	mu    sync.Mutex
	seats map[string]seat // by owner
	up    bool            // subscribed, as far as known
	open  bool            // the listener runs
	tried chan struct{}   // closed when it has subscribed, or failed to, once
	sub   *redis.PubSub   // the listener's
}

// seat is where a waiter sits: what is sent last is a grant, or a reason to look.
type seat chan message

func newInbox(s *Store) *inbox {
	return &inbox{
		store:   s,
		channel: s.keys.inbox(),
		silence: 2 * s.cfg.waiterLease,
		seats:   make(map[string]seat),
		tried:   make(chan struct{}),
	}
}

// sit has owner's messages delivered until rise.
func (b *inbox) sit(owner string) seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := make(seat, 1)
	b.seats[owner] = st
	return st
}

func (b *inbox) rise(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seats, owner)
}

// tell leaves m for who sits there, in place of what was left before: that was for an
// earlier question, or the look that m calls for as well. Needs mu.
func (st seat) tell(m message) {
	select {
	case <-st:
	default:
	}
	st <- m
}

// address is the channel to reach this process by, or "" while there is none.
func (b *inbox) address() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.up {
		return ""
	}
	return b.channel
}

// connect starts the listener, if need be, and waits until it has subscribed or
// failed to, but no longer than most. The caller has entered the store.
func (b *inbox) connect(ctx context.Context, most time.Duration) {
	if b.store.keys.where == ring {
		return
	}
	b.mu.Lock()
	if !b.open {
		b.open = true
		b.store.tasks.Go(func() { b.listen(b.store.ctx) })
	}
	b.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-b.tried:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refusedPause is between attempts to subscribe when the server answers, but
// with a refusal: permissions are not given from one second to the next.
const refusedPause = 30 * time.Second

// listen keeps a subscription until ctx ends.
func (b *inbox) listen(ctx context.Context) {
	var once sync.Once
	tried := func() { once.Do(func() { close(b.tried) }) }
	pause, warned := firstPause, false
	for ctx.Err() == nil {
		began := time.Now()
		err := b.subscribed(ctx, tried)
		b.lost()
		tried()
		most := b.store.cfg.poll()
		if time.Since(began) > most { // that one had worked
			pause, warned = firstPause, false
		}
		if !warned && ctx.Err() == nil {
			warned = true
			b.store.cfg.log.Warn("keyturn: no subscription: waiters poll until it is there", "channel", b.channel, "error", err)
		}
		var refusal redis.Error
		if errors.As(err, &refusal) {
			most = refusedPause
		}
		sleep(ctx, pause)
		pause = min(2*pause, most)
	}
}

// subscribed subscribes and delivers until the connection breaks.
func (b *inbox) subscribed(ctx context.Context, confirmed func()) error {
	sub := b.store.client.Subscribe(ctx, b.channel)
	if !b.keep(sub) {
		return sub.Close()
	}
	defer sub.Close() // an error would be that it is closed
	asked := false
	for {
		msg, err := sub.ReceiveTimeout(ctx, b.silence)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout() && !asked:
			// Half-open, or nothing to say? A connection that is dead would never
			// tell.
			asked = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		asked = false
		switch msg := msg.(type) {
		case *redis.Subscription:
			b.found()
			confirmed()
		case *redis.Message:
			b.deliver(msg.Payload)
		}
	}
}

// keep remembers the subscription for close, unless that has been called.
func (b *inbox) keep(sub *redis.PubSub) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sub = sub
	return b.store.ctx.Err() == nil
}

// close ends the subscription, which ends a listener that sits in a read. The
// store's context has ended before.
func (b *inbox) close() {
	b.mu.Lock()
	sub := b.sub
	b.mu.Unlock()
	if sub != nil {
		_ = sub.Close() // an error would be that it is closed
	}
}

// found notes that messages arrive from now on. Some may have been missed
// before, so everybody looks.
func (b *inbox) found() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up = true
	for _, st := range b.seats {
		st.tell(message{})
	}
}

func (b *inbox) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up = false
}

// deliver wakes the one waiter whose turn it is. One that has left meanwhile
// has also sent word of that, which passes the lock on.
func (b *inbox) deliver(text string) {
	owner, m := parseMessage(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if st, ok := b.seats[owner]; ok {
		st.tell(m)
	}
}
