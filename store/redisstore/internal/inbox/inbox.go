package inbox

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// Config is what an inbox needs from the store that owns it.
type Config struct {
	Client redis.UniversalClient
	Names  script.Names
	Retry  time.Duration // the longest pause between two attempts to subscribe, unless the server refuses
	Log    *slog.Logger
	Life   context.Context // ends when the store closes
	Go     func(func())    // starts a goroutine that the store waits for when it closes
}

// Inbox is where other processes tell this one that a lock has been passed to
// one of its waiters: one channel and one connection, however many wait. It is
// opened by the first who has to wait. Make one with [New]; it is safe for concurrent use.
//
// Messages may be lost. So whoever waits looks for itself now and then, and at
// once when the subscription has been made again. A subscription that is dead without
// saying so is found out by a message of this process to itself (see listen.go).
// While there is none the waiters have no address, look often, and are passed over at
// first (see pace.go, and spared in line.lua).
type Inbox struct {
	Config

	mu      sync.Mutex
	channel string             // of the subscription; "": none, as far as known
	trouble error              // why there is none; nil: there is, or nobody has tried
	waiters map[string]*Waiter // by owner
	open    bool               // the listener runs
	tried   chan struct{}      // closed when it has subscribed, or failed to, once
	once    sync.Once          // closes tried
	sub     *redis.PubSub      // the listener's

	telling sync.Mutex  // held before mu by who changes trouble, so that changes are told in order
	report  func(error) // is told when trouble comes and goes; nil: nobody is
}

// Waiter is one who waits for messages: what is sent last is a grant, or a reason to look.
type Waiter struct {
	messages chan script.Message
	key      string // one of those that it waits for
}

// New makes an inbox, and finds out in the background whether this process may send
// messages.
func New(cfg Config) *Inbox {
	b := &Inbox{Config: cfg, waiters: make(map[string]*Waiter), tried: make(chan struct{})}
	b.Go(b.probe)
	return b
}

// Join has owner's messages delivered until Leave. The key is one of those that it waits for.
func (b *Inbox) Join(owner, key string) *Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &Waiter{messages: make(chan script.Message, 1), key: key}
	b.waiters[owner] = w
	return w
}

// Leave ends what Join began.
func (b *Inbox) Leave(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, owner)
}

// Messages has the last message that was not received, if any.
func (w *Waiter) Messages() <-chan script.Message { return w.messages }

// Clear drops it.
func (w *Waiter) Clear() {
	select {
	case <-w.messages:
	default:
	}
}

// tell leaves m for w, in place of what was left before: that was for an
// earlier question, or the look that m calls for as well. Needs the inbox's mu.
func (w *Waiter) tell(m script.Message) {
	w.Clear()
	w.messages <- m
}

// awaited is the key of somebody who waits, another one each time; "" if nobody does.
func (b *Inbox) awaited() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) == 0 {
		return ""
	}
	n := rand.N(len(b.waiters))
	for _, w := range b.waiters {
		if n == 0 {
			return w.key
		}
		n--
	}
	return ""
}

// Address is the channel to reach this process by, or "" while there is none.
func (b *Inbox) Address() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channel
}

// Known says that it is known whether this process can be told: there is an address, or
// a reason why there is none.
func (b *Inbox) Known() bool {
	if b.Names.Topology() == script.Ring {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channel != "" || b.trouble != nil
}

// Connect starts the listener, if need be, and waits until it has subscribed or
// failed to, but no longer than most. The caller keeps the store from closing.
func (b *Inbox) Connect(ctx context.Context, most time.Duration) {
	if b.Names.Topology() == script.Ring {
		return
	}
	b.mu.Lock()
	if !b.open {
		b.open = true
		b.Go(func() { b.listen(b.Life) })
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

// Close ends the subscription, which ends a listener that sits in a read. The
// store's context has ended before.
func (b *Inbox) Close() {
	b.mu.Lock()
	sub := b.sub
	b.mu.Unlock()
	if sub != nil {
		_ = sub.Close() // an error would be that it is closed
	}
}

// keep remembers the subscription for close, unless that has been called.
func (b *Inbox) keep(sub *redis.PubSub) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sub = sub
	return b.Life.Err() == nil
}

// found notes that messages to channel arrive from now on.
func (b *Inbox) found(channel string) { b.becomes(channel, nil) }

// lost notes that none arrive any more, and why.
func (b *Inbox) lost(trouble error) { b.becomes("", trouble) }

// becomes has everybody look: some messages may have been missed, and what others know
// of how to reach the waiters is not true any more. The operator hears of it when
// trouble comes, and when it goes.
func (b *Inbox) becomes(channel string, trouble error) {
	if b.Life.Err() != nil {
		return
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	before := b.trouble
	if b.channel != channel {
		for _, w := range b.waiters {
			w.tell(script.Message{})
		}
	}
	b.channel, b.trouble = channel, trouble
	b.mu.Unlock()
	b.once.Do(func() { close(b.tried) })
	if (before == nil) == (trouble == nil) {
		return
	}
	if trouble == nil {
		b.Log.Info("keyturn: messages arrive again")
	} else {
		b.Log.Error("keyturn: no messages arrive: the waiters of this process poll, which slows down all",
			"error", trouble, "advice", advice(trouble))
	}
	if b.report != nil {
		b.report(trouble)
	}
}

// Watch has f told of the trouble there is, and of each change.
func (b *Inbox) Watch(f func(error)) {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.report = f
	if b.trouble != nil {
		f(b.trouble)
	}
}

// deliver wakes the one waiter whose turn it is. One that has left meanwhile
// has also sent word of that, which passes the lock on.
func (b *Inbox) deliver(text string) {
	owner, m := script.ParseMessage(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.waiters[owner]; ok {
		w.tell(m)
	}
}

// Advice is what an operator does when a server refuses messages.
const Advice = "let the user publish and subscribe: +publish +subscribe, and the channels <prefix>inbox:*"

// advice is what the operator may do.
func advice(trouble error) string {
	var refusal redis.Error
	if errors.As(trouble, &refusal) {
		return Advice
	}
	return "nothing, if it passes: a new subscription is tried for; otherwise see what drops idle connections"
}
