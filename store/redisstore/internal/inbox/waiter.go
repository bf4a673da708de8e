package inbox

import "github.com/keyturn/keyturn/store/redisstore/internal/script"

// Waiter receives the messages for one owner. It keeps the last one: a grant, or a reason to
// ask.
type Waiter struct {
	messages chan script.Message
	key      string // one of the keys that it waits for
}

// Join starts to deliver owner's messages, until [Inbox.Leave]. The key is one of those that
// the owner waits for.
func (b *Inbox) Join(owner, key string) *Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &Waiter{messages: make(chan script.Message, 1), key: key}
	b.waiters[owner] = w
	return w
}

// Leave ends what [Inbox.Join] began.
func (b *Inbox) Leave(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, owner)
}

// Messages has the last message that was not received, if there is one.
func (w *Waiter) Messages() <-chan script.Message { return w.messages }

// Clear drops the message that was not received.
func (w *Waiter) Clear() {
	select {
	case <-w.messages:
	default:
	}
}

// tell leaves m for w and drops an older message. The older one belonged to an earlier
// question, or it asked w to ask again, which m does as well. The caller holds the inbox's mu.
func (w *Waiter) tell(m script.Message) {
	w.Clear()
	w.messages <- m
}
