package inbox

import "github.com/keyturn/keyturn/store/redisstore/internal/script"

// becomes records that messages to channel arrive from now on, or why none do. If the channel changes, it
// wakes all waiters: messages may have been missed, and other processes know an address that is not true
// any more. It reports to the operator when trouble comes and when it goes.
func (b *Inbox) becomes(channel string, trouble error) {
	if b.Life.Err() != nil {
		return
	}
	missed := false
	defer func() {
		if missed { // the leases that linger name a channel that nobody listens to any more
			b.tellWanted("", "")
		}
	}()
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	before := b.reach.Load()
	missed = before.channel != "" && before.channel != channel
	b.reach.Store(&reach{channel, trouble}) // first: those who are woken look at it without the mutex
	if before.channel != channel {
		for _, w := range b.waiters {
			w.tell(script.Message{})
		}
	}
	b.mu.Unlock()
	b.once.Do(func() { close(b.tried) })
	if (before.trouble == nil) == (trouble == nil) {
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

// Watch makes f the function that learns of trouble: f is called at once if there is trouble,
// and for each change.
func (b *Inbox) Watch(f func(error)) {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.report = f
	if trouble := b.reach.Load().trouble; trouble != nil {
		f(trouble)
	}
}

// What an operator can do when a server refuses messages, or lets nobody in.
const (
	Advice      = "let the user publish and subscribe: +publish +subscribe, and the channels <prefix>inbox:*"
	LoginAdvice = "check the client's user name and password"
)

// advice says what the operator can do about trouble.
func advice(trouble error) string {
	switch {
	case script.NoLogin(trouble):
		return LoginAdvice
	case script.Answered(trouble):
		return Advice
	}
	return "nothing, if it passes: a new subscription is tried for; otherwise see what drops idle connections"
}
