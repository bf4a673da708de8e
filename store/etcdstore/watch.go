package etcdstore

import (
	"context"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// message wakes a request that waits. With a member it is the grant; otherwise it is time to ask.
type message struct{ granted *member }

// watch follows what happens to a waiter and to the one in front of it. So a release wakes one
// waiter, however many there are. A waiter that is the first follows the ends of the holders.
//
// No wait rests on a watch: each request asks every now and then by itself, because it has to give a
// sign of life anyway. Watches of etcd have been known to fall silent.
type watch struct {
	s      *Store
	key    string
	owner  string
	cancel context.CancelFunc
	done   chan struct{}
	broken int // how many watches of the request have broken, one after the other
}

// look has the request watch its place in the queue of key, unless it does so already.
func (a *acquisition) look(key string) {
	broken := 0
	if w := a.watch; w != nil && w.key == key {
		select {
		case <-w.done:
			broken = w.broken
		default:
			return
		}
	}
	a.watch.stop()
	stream := a.s.stream.Load()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(a.s.life))
	w := &watch{s: a.s, key: key, owner: a.req.Owner, cancel: cancel, done: make(chan struct{}), broken: broken}
	a.watch = w
	messages := a.messages
	a.s.calls.Go(func() {
		defer close(w.done)
		if broken > 0 && !waitloop.Sleep(ctx, blind<<min(broken-1, 5)) {
			return
		}
		m, ok := w.follow(onStream(ctx, stream))
		if ctx.Err() != nil {
			return
		}
		if w.broken = 0; !ok {
			w.broken = broken + 1
			a.s.stream.CompareAndSwap(stream, stream+1)
		}
		select {
		case messages <- m:
		default: // it is going to ask anyway
		}
	})
}

// onStream gives watches a stream of their own for each number. The client of etcd has one stream for all
// watches whose contexts have the same metadata. If the user's token has ended meanwhile, etcd refuses
// further watches on it.
func onStream(ctx context.Context, number int64) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "keyturn-stream", strconv.FormatInt(number, 10))
}

// stop ends the watch, and does not wait for it.
func (w *watch) stop() {
	if w != nil {
		w.cancel()
	}
}

// follow returns when there is something to tell. ok is false if the watch has broken.
//
// The watches begin with the present revision, and then it reads. With an earlier revision, etcd
// would pass the events on in a loop that runs ten times a second, and each turn would take 50 ms.
func (w *watch) follow(ctx context.Context) (m message, ok bool) {
	name := w.s.base(w.key) + memberPart + w.owner
	own := w.s.client.Watch(ctx, name)
	front, ahead := "", w.ahead(ctx, "")
	for ctx.Err() == nil {
		t := &tx{s: w.s, ctx: ctx}
		if t.load([]string{w.key}) != nil {
			waitloop.Sleep(ctx, blind)
			continue
		}
		m, before, isFirst := w.place(t.locks[0])
		switch {
		case m != nil:
			return *m, true
		case isFirst && front != "" || !isFirst && front != before:
			front = before
			ahead.stop()
			ahead = w.ahead(ctx, front)
			continue // to read what has happened until it began
		}
		m, ok := w.next(own, ahead.events, name, front)
		if m != nil || !ok {
			ahead.stop()
			if !ok {
				return message{}, false
			}
			return *m, true
		}
	}
	ahead.stop()
	return message{}, true
}

// blind is how long a watch that could not read waits until it tries again.
const blind = 100 * time.Millisecond

// place says what to tell the waiter at once, or who is in front of it.
func (w *watch) place(l *lock) (m *message, front string, isFirst bool) {
	own := l.members.Find(w.owner)
	switch {
	case own == nil:
		return new(message), "", false // its lease is gone, or there is a record to take
	case !own.waits():
		return &message{granted: own}, "", false
	}
	p := l.place()
	if step := p.Step(1); len(step.Granted) > 0 || l.record != nil && own.Once {
		return new(message), "", false // somebody's turn has come, and nobody has noticed
	}
	for _, o := range p.Waiters() {
		if o.owner == w.owner {
			break
		}
		front = o.owner
	}
	return nil, front, front == ""
}

// next waits for the next event that matters. Nil: the place in the queue may be another one. ok is false
// if a watch has broken.
func (w *watch) next(own, ahead clientv3.WatchChan, name, front string) (m *message, ok bool) {
	for {
		select {
		case r, ok := <-own:
			if !ok || r.Err() != nil {
				return nil, false
			}
			for _, e := range r.Events {
				if e.Type == mvccpb.DELETE {
					return new(message), true
				}
				if m, err := readMember(e.Kv, w.owner); err != nil || !m.waits() {
					return &message{granted: m}, true
				}
			}
		case r, ok := <-ahead:
			if !ok || r.Err() != nil {
				return nil, false
			}
			for _, e := range r.Events {
				switch {
				case front != "":
					return nil, true // it has left, or has got the lock
				case string(e.Kv.Key) != name:
					return new(message), true // a holder has gone
				}
			}
		}
	}
}

// channel is a watch of etcd that can be ended.
type channel struct {
	events clientv3.WatchChan
	stop   context.CancelFunc
}

// ahead watches the one in front, or the ends of all members.
func (w *watch) ahead(ctx context.Context, front string) channel {
	ctx, cancel := context.WithCancel(ctx)
	base := w.s.base(w.key)
	if front != "" {
		return channel{w.s.client.Watch(ctx, base+memberPart+front), cancel}
	}
	return channel{w.s.client.Watch(ctx, base+memberPart, clientv3.WithRange(base+membersEnd), clientv3.WithFilterPut()), cancel}
}

// Accept implements [waitloop.Request]: a message that the request has its only claim is a grant.
func (a *acquisition) Accept(m message) (answer, bool) {
	g := m.granted
	if g == nil || len(a.req.Claims) > 1 || !a.waitedFor(g) {
		return answer{}, false
	}
	return answer{grant: a.single(g, a.wait, g.Others)}, true
}

// waitedFor reports whether m is what the request has waited for, and lasts for a while.
func (a *acquisition) waitedFor(m *member) bool {
	return a.wait != nil && m.lease == a.wait.id && time.Since(a.wait.since) < a.wait.ttl*2/3
}
