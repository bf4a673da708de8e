package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// inbox is where other processes tell this one that a lock has been passed to
// one of its waiters: one channel and one connection, however many wait. It is
// opened by the first who has to wait.
//
// Messages may be lost. So whoever waits looks for itself now and then, and at
// once when the subscription has been made again. A subscription that is dead without
// saying so is found out by a message of this process to itself (see [inbox.listen]).
// While there is none the waiters have no address, look often, and are passed over at
// first (see pace.go, and spared in line.lua).
type inbox struct {
	store *Store

	mu      sync.Mutex
	channel string           // of the subscription; "": none, as far as known
	trouble error            // why there is none; nil: there is, or nobody has tried
	seats   map[string]*seat // by owner
	open    bool             // the listener runs
	tried   chan struct{}    // closed when it has subscribed, or failed to, once
	once    sync.Once        // closes tried
	sub     *redis.PubSub    // the listener's

	telling sync.Mutex  // held before mu by who changes trouble, so that changes are told in order
	report  func(error) // is told when trouble comes and goes; nil: nobody is
}

// seat is where a waiter sits: what is sent last is a grant, or a reason to look.
type seat struct {
	messages chan script.Message
	key      string // one of those that it waits for
}

func newInbox(s *Store) *inbox {
	return &inbox{store: s, seats: make(map[string]*seat), tried: make(chan struct{})}
}

// sit has owner's messages delivered until rise.
func (b *inbox) sit(owner, key string) *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := &seat{messages: make(chan script.Message, 1), key: key}
	b.seats[owner] = st
	return st
}

func (b *inbox) rise(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seats, owner)
}

// tell leaves m for who sits there, in place of what was left before: that was for an
// earlier question, or the look that m calls for as well. Needs the inbox's mu.
func (st *seat) tell(m script.Message) {
	st.clear()
	st.messages <- m
}

func (st *seat) clear() {
	select {
	case <-st.messages:
	default:
	}
}

// awaited is the key of somebody who waits, another one each time; "" if nobody does.
func (b *inbox) awaited() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seats) == 0 {
		return ""
	}
	n := rand.N(len(b.seats))
	for _, st := range b.seats {
		if n == 0 {
			return st.key
		}
		n--
	}
	return ""
}

// address is the channel to reach this process by, or "" while there is none.
func (b *inbox) address() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channel
}

// known says that it is known whether this process can be told: there is an address, or
// a reason why there is none.
func (b *inbox) known() bool {
	if b.store.keys.Topology() == script.Ring {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channel != "" || b.trouble != nil
}

// connect starts the listener, if need be, and waits until it has subscribed or
// failed to, but no longer than most. The caller has entered the store.
func (b *inbox) connect(ctx context.Context, most time.Duration) {
	if b.store.keys.Topology() == script.Ring {
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

// keep remembers the subscription for close, unless that has been called.
func (b *inbox) keep(sub *redis.PubSub) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sub = sub
	return b.store.ctx.Err() == nil
}

// found notes that messages to channel arrive from now on.
func (b *inbox) found(channel string) { b.becomes(channel, nil) }

// lost notes that none arrive any more, and why.
func (b *inbox) lost(trouble error) { b.becomes("", trouble) }

// becomes has everybody look: some messages may have been missed, and what others know
// of how to reach the waiters is not true any more. The operator hears of it when
// trouble comes, and when it goes.
func (b *inbox) becomes(channel string, trouble error) {
	if b.store.ctx.Err() != nil {
		return
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	before := b.trouble
	if b.channel != channel {
		for _, st := range b.seats {
			st.tell(script.Message{})
		}
	}
	b.channel, b.trouble = channel, trouble
	b.mu.Unlock()
	b.once.Do(func() { close(b.tried) })
	if (before == nil) == (trouble == nil) {
		return
	}
	if trouble == nil {
		b.store.cfg.log.Info("keyturn: messages arrive again")
	} else {
		b.store.cfg.log.Error("keyturn: no messages arrive: this process looks for its turns, which is slower, also for the others",
			"error", trouble, "advice", advice(trouble))
	}
	if b.report != nil {
		b.report(trouble)
	}
}

// watch has f told of the trouble there is, and of each change.
func (b *inbox) watch(f func(error)) {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.report = f
	if b.trouble != nil {
		f(b.trouble)
	}
}

// deliver wakes the one waiter whose turn it is. One that has left meanwhile
// has also sent word of that, which passes the lock on.
func (b *inbox) deliver(text string) {
	owner, m := script.ParseMessage(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if st, ok := b.seats[owner]; ok {
		st.tell(m)
	}
}

const adviceMessages = "let the user publish and subscribe: +publish +subscribe, and the channels <prefix>inbox:*"

// advice is what the operator may do.
func advice(trouble error) string {
	var refusal redis.Error
	if errors.As(trouble, &refusal) {
		return adviceMessages
	}
	return "nothing, if it passes: a new subscription is tried for; otherwise see what drops idle connections"
}
