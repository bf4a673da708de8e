package inbox

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
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

// Inbox receives the messages by which other processes say that they have passed a lock to a
// waiter of this process. It uses one channel and one connection, however many waiters there
// are. The first request that has to wait opens it. Make one with [New]. It is safe for
// concurrent use.
//
// Messages may be lost. So a waiter asks by itself now and then, and at once after the inbox
// has subscribed again. A subscription may also be dead without an error. To find that out, the
// process sends messages to itself (see listen.go).
//
// While there is no subscription, the waiters have no address and ask often. Other processes do
// not pass the lock to them at first (see poll.go, and spared in line.lua).
type Inbox struct {
	Config

	reach atomic.Pointer[reach] // written with mu; each request reads it

	mu      sync.Mutex
	waiters map[string]*Waiter      // by owner
	open    bool                    // the listener is running
	tried   chan struct{}           // closed after the first attempt to subscribe
	once    sync.Once               // closes tried
	sub     *redis.PubSub           // the listener's subscription
	lingers string                  // the key of the last request for a lease that may linger; "": there was none
	wanted  func(key, owner string) // is called when a lease that lingers is wanted; nil: no call

	telling sync.Mutex  // held before mu by a change of trouble, so that report sees the changes in order
	report  func(error) // is called when trouble comes and when it goes; nil: no call
}

// reach is whether messages reach this process.
type reach struct {
	channel string // of the subscription; "": there is none, as far as known
	trouble error  // why there is no subscription; nil: there is one, or nobody has tried
}

// New makes an inbox. In the background, the inbox finds out whether this process may send
// messages.
func New(cfg Config) *Inbox {
	b := &Inbox{Config: cfg, waiters: make(map[string]*Waiter), tried: make(chan struct{})}
	b.reach.Store(new(reach))
	b.Go(b.probe)
	return b
}

// awaited returns a key about which a message may come: that of a waiter, chosen at random, or of
// a lease that may linger; "" if no message is expected.
func (b *Inbox) awaited() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiters { // a map begins anywhere
		return w.key
	}
	return b.lingers
}

// Address returns the channel that reaches this process; "" while there is none.
func (b *Inbox) Address() string { return b.reach.Load().channel }

// Attend is [Inbox.Address] for a request for a lease that may linger. The process has to hear when
// the lease is wanted, so from now on the inbox stays open and watches its subscription.
func (b *Inbox) Attend(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lingers = key
	b.openLocked()
	return b.Address()
}

// OnWanted makes f the function that learns when a lease that lingers is wanted, and, with empty
// arguments, that messages may have been missed.
func (b *Inbox) OnWanted(f func(key, owner string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = f
}

// tellWanted calls that function. No mutex may be held: the engine may release the lease.
func (b *Inbox) tellWanted(key, owner string) {
	b.mu.Lock()
	f := b.wanted
	b.mu.Unlock()
	if f != nil {
		f(key, owner)
	}
}

// Known reports whether the inbox knows if messages can reach this process: it has an address,
// or a reason why it has none.
func (b *Inbox) Known() bool {
	if b.Names.Topology() == script.Ring {
		return true
	}
	now := b.reach.Load()
	return now.channel != "" || now.trouble != nil
}

// Connect starts the listener if it is not running. It returns when the listener has tried to
// subscribe, and after most at the latest. The caller keeps the store from closing.
func (b *Inbox) Connect(ctx context.Context, most time.Duration) {
	if b.Names.Topology() == script.Ring {
		return
	}
	b.mu.Lock()
	b.openLocked()
	b.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-b.tried:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// openLocked starts the listener if it is not running. Needs mu.
func (b *Inbox) openLocked() {
	if !b.open && b.Names.Topology() != script.Ring {
		b.open = true
		b.Go(func() { b.listen(b.Life) })
	}
}

// Close ends the subscription, which also ends a read that the listener waits in. The store's
// context has ended before.
func (b *Inbox) Close() {
	b.mu.Lock()
	sub := b.sub
	b.mu.Unlock()
	if sub != nil {
		_ = sub.Close() // an error would say that it is closed already
	}
}

// keep remembers the subscription for Close. It reports false if the store has closed already.
func (b *Inbox) keep(sub *redis.PubSub) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sub = sub
	return b.Life.Err() == nil
}

// deliver wakes the one waiter whose turn it is. If that waiter has left meanwhile, it has sent
// a release, and the release passes the lock on.
func (b *Inbox) deliver(text string) {
	if owner, lock, ok := script.ParseWanted(text); ok {
		if key, ours := b.Names.KeyOf(lock, false); ours {
			b.tellWanted(key, owner)
		}
		return
	}
	owner, m := script.ParseMessage(text)
	b.mu.Lock()
	w, ok := b.waiters[owner]
	if ok {
		w.tell(m)
	}
	only := ok && len(b.waiters) == 1
	b.mu.Unlock()
	if only { // no other message is awaited: the waiter goes on before this goroutine reads again
		runtime.Gosched()
	}
}
