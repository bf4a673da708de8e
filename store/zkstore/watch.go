package zkstore

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// view is what a waiter has seen, and what would be a reason to look again.
type view struct {
	lock    string // its path
	own     string // the waiter's node
	ahead   string // another waiter's node, whose end changes whose turn it is; ""
	front   bool   // the waiter is the first of its kind, so each decision about the lock concerns it
	version int32  // of the lock; after the transaction
}

// viewOf is the view of a waiter, which has a node.
//
// Readers wait as one kind and all others as another (package keystate). The first of each kind looks
// at each decision, and at the first of the other kind. All others only look at the one in front of
// them. So a decision wakes two waiters, however many there are.
func viewOf(l *lock, own *keystate.Member) view {
	v := view{lock: l.path, own: nodeOf(own).name, version: l.version, front: true}
	if l.writes {
		v.version++
	}
	waiters := l.Waiters()
	for _, w := range waiters {
		if w == own {
			break
		}
		if isReader(w) == isReader(own) {
			v.front, v.ahead = false, nodeOf(w).name
		}
	}
	if !v.front {
		return v
	}
	for _, w := range waiters {
		if isReader(w) != isReader(own) {
			v.ahead = nodeOf(w).name
			break
		}
	}
	return v
}

func isReader(m *keystate.Member) bool { return m.Mode == driver.ModeShared }

// watch asks the server to tell of what concerns the waiter. The error is errConflict if that has
// changed already.
func (a *acquisition) watch(ctx context.Context, v *view) error {
	p, err := a.s.link.get(ctx, a.s.patience(a.Wait))
	if err != nil {
		return err
	}
	own := v.lock + "/" + v.own
	a.own = own
	paths := []string{own}
	if v.ahead != "" {
		paths = append(paths, v.lock+"/"+v.ahead)
	}
	if v.front {
		paths = append(paths, v.lock)
	}
	a.s.watchers.follow(a.Wake, paths)
	return casstore.Parallel(len(paths), func(i int) error {
		stat, err := a.s.watchNode(p, paths[i])
		switch {
		case err != nil:
			return err
		case paths[i] == v.lock && stat.Version != v.version:
			return errConflict
		case paths[i] == own && stat.EphemeralOwner != p.SessionID():
			// The servers are about to delete it, with the session that it was made in.
			if err := p.Delete(own, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			return errConflict
		}
		return nil
	})
}

// watchNode has the server tell of the next change of a node.
func (s *Store) watchNode(p *peer, path string) (*zk.Stat, error) {
	set, fired := s.watchers.isSet(path)
	if set {
		exists, stat, err := p.Exists(path)
		if err == nil && !exists {
			err = errConflict
		}
		return stat, err
	}
	// Not ExistsW: for a node that is not there it would wait for its creation.
	_, stat, _, err := p.GetW(path)
	if err == nil {
		s.watchers.isSetNow(path, fired)
	}
	return stat, err
}
