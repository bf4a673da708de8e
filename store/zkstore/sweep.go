package zkstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	// sweepEvery is how often the processes of a fleet together look for what is over.
	sweepEvery = time.Hour
	// keepFor is how long what is over stays. A token is greater than those before although a
	// node is gone, because the clock has gone on.
	keepFor = 24 * time.Hour
	// A bucket has a few hundred keys at most, so a store that sweeps sends a few requests each time.
	bucketPause = 2 * time.Second
	// mostFirst bounds the sweep of a process's first bucket.
	mostFirst = 5 * time.Second
)

// sweep deletes what has been over for a day, until the store closes.
func (s *Store) sweep() {
	for waitloop.Sleep(s.life, sweepEvery/2+rand.N(sweepEvery)) {
		// After an error, the next sweep deletes the rest, here or in another process.
		_ = s.sweepAll(s.life, keepFor, sweepEvery/2, bucketPause)
	}
}

// sweepOnce sweeps the bucket of key, for the first lock of this process. A process that lives for seconds
// would otherwise never sweep. Keys are spread over the buckets evenly, so each bucket has its turn.
func (s *Store) sweepOnce(key string) {
	if s.swept.Load() || s.swept.Swap(true) {
		return
	}
	s.calls.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, mostFirst)
		defer cancel()
		_ = s.visitBucket(ctx, bucketOf(key), keepFor, sweepEvery/2) // what is left is for the next process
	})
}

// Sweep deletes leases, records, versions and notes that have been over for at least that long, and
// the nodes of keys that have been idle for as long, at least a minute. The store does the same every hour by itself,
// and for the bucket of its first lock at once, with a day; call it to do so at another time. Tokens still increase afterwards, because they follow
// the clock. The error matches driver.ErrUnavailable, or driver.ErrClosed.
func (s *Store) Sweep(ctx context.Context, olderThan time.Duration) error {
	_, err := casstore.Call(ctx, &s.ops, "sweep", "", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.sweepAll(ctx, max(0, olderThan), 0, 0)
	})
	return err
}

// sweepAll visits all buckets except those that were visited less than a while ago.
func (s *Store) sweepAll(ctx context.Context, olderThan, ago, pause time.Duration) error {
	buckets, err := retry(ctx, s, func(p *peer) ([]string, error) { return s.childrenOf(p, s.cfg.root+bucketsNode) })
	if err != nil {
		return err
	}
	rand.Shuffle(len(buckets), func(i, j int) { buckets[i], buckets[j] = buckets[j], buckets[i] })
	for _, bucket := range buckets {
		if err := s.visitBucket(ctx, bucket, olderThan, ago); err != nil && !isConflict(err) {
			return err
		}
		if pause > 0 && !waitloop.Sleep(ctx, pause/2+rand.N(pause)) {
			return ctx.Err()
		}
	}
	return nil
}

// visitBucket sweeps a bucket, except one that was visited less than a while ago.
func (s *Store) visitBucket(ctx context.Context, bucket string, olderThan, ago time.Duration) error {
	_, err := retry(ctx, s, func(p *peer) (struct{}, error) {
		mine, err := s.visit(p, bucket, ago)
		if mine && err == nil {
			err = s.sweepBucket(ctx, p, bucket, olderThan)
		}
		return struct{}{}, err
	})
	return err
}

// visit notes that this process sweeps a bucket, unless another one has done so less than a while
// ago, or it is as new: then nothing in it is over.
func (s *Store) visit(p *peer, bucket string, ago time.Duration) (mine bool, err error) {
	if ago == 0 {
		return true, nil
	}
	path := s.bucketPath(bucket)
	exists, stat, err := p.Exists(path)
	now, known := p.clock.now()
	if err != nil || !exists || known && now.now-stat.Mtime*1000 < toMicros(ago) {
		return false, err
	}
	stat, err = p.Set(path, nil, stat.Version)
	if isConflict(err) {
		return false, nil // another process was quicker
	}
	if err == nil {
		p.clock.note(stat)
	}
	return err == nil, err
}

// sweepBucket deletes what is over in a bucket.
func (s *Store) sweepBucket(ctx context.Context, p *peer, bucket string, olderThan time.Duration) error {
	names, err := s.childrenOf(p, s.bucketPath(bucket))
	if err != nil {
		return err
	}
	now, err := s.tick(p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		key, ok := lockNames.Key(name)
		if !ok {
			continue // not of this store
		}
		if err := s.sweepLock(ctx, p, key, now.now-toMicros(olderThan)); err != nil && !isConflict(err) && !errors.Is(err, errData) {
			return err
		}
	}
	return nil
}

// sweepLock deletes what ended below a lock before the moment over, and the lock itself if that was
// all, and nobody has used it since.
func (s *Store) sweepLock(ctx context.Context, p *peer, key string, over micros) error {
	path := s.lockPath(key)
	names, stat, err := p.Children(path)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if err := s.sweepBelow(ctx, p, key, names, over); err != nil {
			return err
		}
		if names, stat, err = p.Children(path); err != nil {
			return err
		}
	}
	now, _ := p.clock.now()
	if idle := min(over, now.now-toMicros(leastIdle)); len(names) > 0 || stat.Mtime*1000 > idle {
		return nil
	}
	return p.Delete(path, stat.Version)
}

// sweepBelow deletes the leases, the record, the version and the notes among the nodes of a lock that ended before
// the moment over.
func (s *Store) sweepBelow(ctx context.Context, p *peer, key string, names []string, over micros) error {
	ended := false
	for _, name := range names {
		if strings.HasPrefix(name, waiterNode) {
			continue
		}
		path := s.lockPath(key) + "/" + name
		data, stat, err := p.Get(path)
		if err != nil {
			return err
		}
		var keep micros
		switch {
		case strings.HasPrefix(name, holderNode):
			var h memberData
			if err := decode(path, data, &h); err != nil {
				return err
			}
			now, _ := p.clock.now()
			ended = ended || now.ends(stat, h.Term) <= over
			continue
		case strings.HasPrefix(name, forcedNode):
			keep = toMicros(keystate.ReasonKept)
		case name == versionNode:
			var v versionData
			err = decode(path, data, &v)
			keep = v.Keep
		case name == recordNode:
			_, keep, err = decodeRecord(path, data)
		default: // not of this store
			continue
		}
		if err == nil && wallEnds(stat, keep) <= over {
			err = p.Delete(path, stat.Version)
		}
		if err != nil {
			return err
		}
	}
	if !ended {
		return nil
	}
	// A decision takes them out.
	_, err := s.decide(ctx, casstore.Aim{Keys: []string{key}}, (*keystate.State).Settle)
	return err
}
