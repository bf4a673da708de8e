package casstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Inbox is where other processes tell this one that a lease of its own is in somebody's way, if its engine may keep
// that lease (core.WithLinger). The process listens from the first request for such a lease on. The lease names the
// inbox.
type Inbox struct {
	Wanted
	// Follow passes messages on until they may not arrive any more, or the store closes. It calls hears with the
	// address once they arrive there.
	Follow func(hears func(address string))

	open    sync.Once
	address atomic.Pointer[string] // nil: messages don't arrive now
}

// deaf is the pause before an inbox follows messages again.
const deaf = 100 * time.Millisecond

// Serve has a request name the inbox, if its lease may linger and messages arrive now. The first such request begins
// to listen.
func (b *Inbox) Serve(s *Store, r *keystate.Request) {
	if r.Linger && !r.Once && b.HasEngine() {
		b.open.Do(func() { s.Calls.Go(func() { b.listen(s.Life) }) })
		if address := b.address.Load(); address != nil {
			r.Inbox = *address
		}
	}
	r.Linger = r.Inbox != ""
}

// listen follows messages until the store closes.
func (b *Inbox) listen(life context.Context) {
	for {
		b.Follow(func(address string) { b.address.Store(&address) })
		if b.address.Swap(nil) != nil {
			b.Tell("", "")
		}
		if !waitloop.Sleep(life, deaf) {
			return
		}
	}
}
