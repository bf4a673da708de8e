package etcdstore

import (
	"context"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/waitloop"
)

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

// follow has the request watch its place in the queue of key, unless it does so already.
func (a *acquisition) follow(key string) {
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
	w := &watch{s: a.s, key: key, owner: a.Owner, cancel: cancel, done: make(chan struct{}), broken: broken}
	a.watch = w
	a.Calls.Go(func() {
		defer close(w.done)
		if broken > 0 && !waitloop.Sleep(ctx, watchPause<<min(broken-1, 5)) {
			return
		}
		granted, ok := w.follow(onStream(ctx, stream))
		if ctx.Err() != nil {
			return
		}
		if w.broken = 0; !ok {
			w.broken = broken + 1
			a.s.stream.CompareAndSwap(stream, stream+1)
		}
		if granted != nil {
			a.granted.Store(granted)
		}
		a.Wake.Ring()
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

// follow returns when there is something to tell: what the request was granted, or nil if it is time to ask.
// ok is false if the watch has broken.
//
// The watches begin with the present revision, and then it reads. With an earlier revision, etcd
// would pass the events on in a loop that runs ten times a second, and each turn would take 50 ms.
func (w *watch) follow(ctx context.Context) (granted *entry, ok bool) {
	name := w.s.base(w.key) + memberPart + w.owner
	own := w.s.client.Watch(ctx, name)
	front, ahead := "", w.ahead(ctx, "")
	defer func() { ahead.stop() }()
	for ctx.Err() == nil {
		p, err := w.place(ctx)
		switch {
		case err != nil:
			waitloop.Sleep(ctx, watchPause)
			continue
		case p.granted != nil || p.ask:
			return p.granted, true
		case p.front != front:
			front = p.front
			ahead.stop()
			ahead = w.ahead(ctx, front)
			continue // to read what has happened until it began
		}
		if granted, moved, ok := w.next(own, ahead.events, name, front); !moved {
			return granted, ok
		}
	}
	return nil, true
}

// watchPause is how long a watch that could not read waits until it tries again.
const watchPause = 100 * time.Millisecond

// place is where a waiter stands.
type place struct {
	granted *entry
	ask     bool   // it has no place, or somebody's turn has come, and nobody has noticed
	front   string // the one in front of it; "": it is the first
}

// place reads where the waiter stands.
func (w *watch) place(ctx context.Context) (p place, err error) {
	t := w.s.tx(ctx, casstore.Aim{Keys: []string{w.key}})
	if err := t.load(); err != nil {
		return p, err
	}
	t.reset()
	k := t.Keys[0]
	own := k.Find(w.owner)
	switch {
	case own == nil:
		return place{ask: true}, nil // its lease is gone, or there is a record to take
	case !own.Waits:
		return place{granted: own.Ref.(*node).was}, nil
	}
	if err := t.Settle(); err != nil || len(t.Woken) > 0 {
		return place{ask: true}, err
	}
	for _, o := range k.Waiters() {
		if o == own {
			break
		}
		p.front = o.Owner
	}
	return p, nil
}

// next waits for the next event that matters. moved: the place in the queue may be another one. ok is false
// if a watch has broken.
func (w *watch) next(own, ahead clientv3.WatchChan, name, front string) (granted *entry, moved, ok bool) {
	for {
		select {
		case r, ok := <-own:
			if !ok || r.Err() != nil {
				return nil, false, false
			}
			for _, e := range r.Events {
				if e.Type == mvccpb.DELETE {
					return nil, false, true
				}
				if granted, err := readEntry(e.Kv, w.owner); err != nil || !granted.waits() {
					return granted, false, true
				}
			}
		case r, ok := <-ahead:
			if !ok || r.Err() != nil {
				return nil, false, false
			}
			for _, e := range r.Events {
				switch {
				case front != "":
					return nil, true, true // it has left, or has got the lock
				case string(e.Kv.Key) != name:
					return nil, false, true // a holder has gone
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
