package zkstore

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckOnce(req.Claims); err != nil {
		return driver.Grant{}, nil, err
	}
	ans, err := s.acquire(ctx, req, true)
	return ans.Grant, ans.Record, err
}

// record reads the record of a lock, whether it is in force or not.
func (s *Store) record(p *peer, lock string) (*keystate.Record, *zk.Stat, error) {
	path := lock + "/" + recordNode
	data, stat, err := p.Get(path)
	if err != nil {
		return nil, nil, err
	}
	r, keep, err := decodeRecord(path, data)
	if err == nil {
		r.Until = time.UnixMicro(wallEnds(stat, keep))
	}
	return r, stat, err
}

// Complete implements [driver.Ledger]. A result that is too large for a request to ZooKeeper is not
// kept.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if err := driver.CheckOnce(g.Claims); err != nil {
		return err
	}
	if retention < time.Millisecond {
		return &driver.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	keep := keystate.Record{Record: rec, Owner: g.Owner}
	if len(encodeRecord(&keep, toMicros(retention)))+s.bytesOf(g.Claims) > s.cfg.buffer {
		keep.NoRoom, keep.Result, keep.ResultNotKept = true, nil, true
	}
	kept, err := s.ops.Finish(ctx, g, keep, retention)
	if err == nil && kept.NoRoom {
		err = &driver.ResultNotKeptError{Key: g.Claims[0].Key}
	}
	return err
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	if err := driver.ValidateKey(key); err != nil {
		return false, err
	}
	return casstore.Call(ctx, &s.ops, "forget", key, func(ctx context.Context) (had bool, err error) {
		_, err = s.transact(ctx, casstore.Aim{Keys: []string{key}, Records: true, Looks: true}, func(t *tx) error {
			here, err := t.forget(t.locks[0])
			had = had || here
			return err
		})
		return had, err
	})
}

// forget deletes the record and the version of a lock, and reports whether there was either.
func (t *tx) forget(l *lock) (had bool, err error) {
	if err := t.Settle(); err != nil {
		return false, err
	}
	had, l.Record = l.Record != nil, nil
	if l.nodes.record {
		l.touched = true
		t.extra = append(t.extra, &zk.DeleteRequest{Path: l.path + "/" + recordNode, Version: -1})
	}
	if !l.nodes.version {
		return had, nil
	}
	v, stat, err := t.s.version(t.p, l.path)
	if err != nil {
		return had, err
	}
	t.extra = append(t.extra, &zk.DeleteRequest{Path: l.path + "/" + versionNode, Version: stat.Version})
	return had || wallEnds(stat, v.Keep) > t.now.now, nil
}

// version reads the version of a lock, whether it is in force or not.
func (s *Store) version(p *peer, lock string) (v versionData, stat *zk.Stat, err error) {
	path := lock + "/" + versionNode
	data, stat, err := p.Get(path)
	if err != nil {
		return v, stat, err
	}
	return v, stat, decode(path, data, &v)
}

// Raise implements [driver.Ledger].
func (s *Store) Raise(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if err := driver.ValidateKey(key); err != nil {
		return 0, err
	}
	if retention < time.Millisecond && version > 0 {
		return 0, &driver.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	return casstore.Call(ctx, &s.ops, "raise", key, func(ctx context.Context) (uint64, error) {
		return retry(ctx, s, func(p *peer) (uint64, error) { return s.raise(p, key, versionData{version, toMicros(retention)}) })
	})
}

// raise keeps the greater of the version and the present one.
func (s *Store) raise(p *peer, key string, want versionData) (uint64, error) {
	lock := s.lockPath(key)
	path := lock + "/" + versionNode
	if _, err := p.Sync(s.cfg.root); err != nil {
		return 0, err
	}
	now, known := p.clock.now()
	if !known {
		var err error
		if now, err = s.tick(p); err != nil {
			return 0, err
		}
	}
	has, stat, err := s.version(p, lock)
	switch {
	case errors.Is(err, zk.ErrNoNode) && want.Version == 0:
		return 0, nil
	case errors.Is(err, zk.ErrNoNode):
		return want.Version, s.firstVersion(p, key, want)
	case err != nil:
		return 0, err
	case wallEnds(stat, has.Keep) > now.now:
		if want.Version == 0 {
			return has.Version, nil
		}
		want.Version = max(want.Version, has.Version)
	case want.Version == 0:
		return 0, nil
	}
	stat, err = p.Set(path, encode(want), stat.Version)
	p.clock.note(stat)
	return want.Version, err
}

// firstVersion makes the node of a version, and that of its key if there is none.
func (s *Store) firstVersion(p *peer, key string, want versionData) error {
	lock := s.lockPath(key)
	create := func() error {
		_, err := p.Create(lock+"/"+versionNode, encode(want), zk.FlagPersistent, s.cfg.acl)
		return err
	}
	err := create()
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	err = s.makeNode(p, lock, encode(lockData{}))
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.makeBucket(p, key); err == nil {
			err = s.makeNode(p, lock, encode(lockData{}))
		}
	}
	if err != nil {
		return err
	}
	return create()
}
