package etcdstore

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// place is where a request stands in a queue.
type place struct {
	key   string
	front string // the owner of the waiter in front of it; "": it is the first
	rev   int64  // etcd's revision when that was so
}

// message wakes a request that waits. With a member it is the grant; otherwise it is time to ask.
type message struct{ granted *member }

// watch follows what happens to a waiter and to the one in front of it. So a release wakes one
// waiter, however many there are. A waiter that is the first follows the ends of the holders.
//
// No wait rests on a watch: each request asks every now and then by itself, because it has to give a
// sign of life anyway. Watches of etcd have been known to fall silent.
type watch struct {
	place
	cancel context.CancelFunc
	done   chan struct{}
}

// look has the request watch from a place on, unless it does so already.
func (a *acquisition) look(p place) {
	if w := a.watch; w != nil && w.key == p.key && w.front == p.front {
		select {
		case <-w.done:
		default:
			return
		}
	}
	a.watch.stop()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(a.s.life))
	w := &watch{place: p, cancel: cancel, done: make(chan struct{})}
	a.watch = w
	messages, owner := a.messages, a.req.Owner
	a.s.calls.Go(func() {
		defer close(w.done)
		m := w.follow(ctx, a.s, owner)
		if ctx.Err() != nil {
			return
		}
		select {
		case messages <- m:
		default: // it is going to ask anyway
		}
	})
}

// stop ends the watch, and does not wait for it.
func (w *watch) stop() {
	if w != nil {
		w.cancel()
	}
}

// follow returns when there is something to tell, or when the watch has broken.
func (w *watch) follow(ctx context.Context, s *Store, owner string) message {
	base := s.base(w.key)
	own := s.client.Watch(ctx, base+memberPart+owner, clientv3.WithRev(w.rev+1))
	front := w.front
	ahead := w.ahead(ctx, s, base, front)
	for {
		select {
		case r, ok := <-own:
			if !ok || r.Err() != nil {
				return message{}
			}
			for _, e := range r.Events {
				if e.Type == mvccpb.DELETE {
					return message{} // its lease is gone, or there is a record to take
				}
				if m, err := readMember(e.Kv, owner); err != nil || !m.waits() {
					return message{granted: m}
				}
			}
		case r, ok := <-ahead:
			if !ok || r.Err() != nil {
				return message{}
			}
			for _, e := range r.Events {
				if e.Type == mvccpb.DELETE {
					if string(e.Kv.Key) != base+memberPart+owner {
						return message{}
					}
				} else if m, err := readMember(e.Kv, front); err != nil || !m.waits() {
					// It has got the lock, so this one is the first now. From the old revision
					// on: an end of another holder may lie in between.
					front = ""
					ahead = w.ahead(ctx, s, base, front)
				}
			}
		}
	}
}

// ahead watches the one in front, or all holders.
func (w *watch) ahead(ctx context.Context, s *Store, base, front string) clientv3.WatchChan {
	from := clientv3.WithRev(w.rev + 1)
	if front != "" {
		return s.client.Watch(ctx, base+memberPart+front, from)
	}
	return s.client.Watch(ctx, base+memberPart, clientv3.WithRange(base+membersEnd), clientv3.WithFilterPut(), from)
}

// Accept implements [waitloop.Request]: a message that the request has its only claim is a grant.
func (a *acquisition) Accept(m message) (answer, bool) {
	g := m.granted
	if g == nil || len(a.req.Claims) > 1 || !a.waitedFor(g) {
		return answer{}, false
	}
	return answer{grant: a.grant(g.Token, g.Reserved, a.wait, g.Others)}, true
}

// waitedFor reports whether m is what the request has waited for, and lasts for a while.
func (a *acquisition) waitedFor(m *member) bool {
	return a.wait != nil && m.lease == a.wait.id && time.Since(a.wait.since) < a.wait.ttl*2/3
}
