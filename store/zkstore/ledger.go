package zkstore

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.ops.Begin(ctx, req)
}

// record reads the record of a lock, whether it is in force or not.
func (s *Store) record(p *peer, lock string) (*keystate.Record, error) {
	path := lock + "/" + recordNode
	data, stat, err := p.Get(path)
	if err != nil {
		return nil, err
	}
	r, keep, err := decodeRecord(path, data)
	if err == nil {
		r.Until = time.UnixMicro(wallEnds(stat, keep))
	}
	return r, err
}

// Complete implements [driver.Ledger]. A result that is too large for a request to ZooKeeper is not
// kept.
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	return s.ops.Complete(ctx, g, rec, retention, func(keep *keystate.Record) bool {
		return len(encodeRecord(keep, toMicros(retention)))+s.bytesOf(g.Claims) <= s.cfg.buffer
	})
}

// Forget implements [driver.Inspector].
func (s *Store) Forget(ctx context.Context, key string) (bool, error) {
	return s.ops.Forget(ctx, key, func(ctx context.Context) (had bool, err error) {
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

// AdvanceVersion implements [driver.Ledger].
func (s *Store) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	return s.ops.AdvanceVersion(ctx, key, version, retention, func(ctx context.Context) (newest uint64, err error) {
		_, err = s.transact(ctx, casstore.Aim{Keys: []string{key}, Looks: true}, func(t *tx) (err error) {
			newest, err = t.raise(t.locks[0], version, retention)
			return err
		})
		return newest, err
	})
}

// raise keeps the greater of the version and the present one.
func (t *tx) raise(l *lock, version uint64, retention time.Duration) (newest uint64, err error) {
	var has keystate.Version
	var stat *zk.Stat
	if l.nodes.version {
		var v versionData
		if v, stat, err = t.s.version(t.p, l.path); err != nil {
			return 0, err
		}
		has = keystate.Version{N: v.Version, Until: time.UnixMicro(wallEnds(stat, v.Keep))}
	}
	if has = has.AdvanceVersion(version, retention, t.Now); version == 0 {
		return has.N, nil
	}
	path, data := l.path+"/"+versionNode, encode(versionData{has.N, toMicros(retention)})
	if stat != nil {
		t.extra = append(t.extra, &zk.SetDataRequest{Path: path, Data: data, Version: stat.Version})
		return has.N, nil
	}
	l.touched = !l.exists // so that it is made
	t.extra = append(t.extra, &zk.CreateRequest{Path: path, Data: data, Acl: t.s.cfg.acl})
	return has.N, nil
}
