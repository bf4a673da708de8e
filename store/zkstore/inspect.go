package zkstore

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	return s.ops.Inspect(ctx, key)
}

// show shows keys as they are after everything that was answered before.
func (s *Store) show(ctx context.Context, keys []string) ([]driver.LockInfo, error) {
	return retry(ctx, s, func(p *peer) ([]driver.LockInfo, error) { return s.inspectAll(p, keys, true) })
}

// inspectAll shows keys. Without sync it is for a list, which one key that can't be read must not hide.
func (s *Store) inspectAll(p *peer, keys []string, sync bool) ([]driver.LockInfo, error) {
	infos := make([]driver.LockInfo, len(keys))
	err := casstore.Parallel(len(keys), func(i int) (err error) {
		if infos[i], err = s.inspect(p, keys[i], sync); !sync && errors.Is(err, errData) {
			err = nil
		}
		return err
	})
	return infos, err
}

// inspect shows a key as of one moment. It changes nothing, also not what is over.
func (s *Store) inspect(p *peer, key string, sync bool) (driver.LockInfo, error) {
	t := &tx{s: s, p: p, looks: true, synced: sync, records: true}
	if err := t.load([]string{key}); err != nil {
		return driver.LockInfo{}, err
	}
	k := t.Keys[0]
	if err := t.complete(k, k.Waiters()); err != nil {
		return driver.LockInfo{}, err
	}
	info := t.Show(k)
	for i, m := range k.Holders() {
		info.Holders[i].Left = min(info.Holders[i].Left, fromMicros(nodeOf(m).data.Term)) // now is a little early
	}
	return info, nil
}
