package drivertest

import (
	"context"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// known is a version that the backend keeps.
type known struct {
	version uint64
	expires time.Time
}

func (p *process) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (newest uint64, err error) {
	if p.isClosed() && !p.has("Close changes nothing for versions") {
		return 0, driver.ErrClosed
	}
	if p.has("versions are read, then written") {
		var before uint64
		if err := p.call(ctx, func() { before = p.version(key) }); err != nil {
			return 0, err
		}
		newest = max(before, version)
		return newest, p.call(ctx, func() { p.keepVersion(key, version, newest, retention) })
	}
	err = p.call(ctx, func() {
		before := p.version(key)
		newest = p.greater(version, before)
		p.keepVersion(key, version, newest, retention)
		switch {
		case p.has("a version leaves the lease free"):
			p.at(key).holders = nil
		case p.has("a version is a record") && version > 0:
			p.records[key] = finished{expires: time.Now().Add(retention)}
		}
	})
	if err != nil && p.has("an outage of versions is the context's error") {
		return 0, ctx.Err()
	}
	return newest, err
}

// version is the one in force, 0 for none; the caller has the mutex.
func (b *backend) version(key string) uint64 {
	if b.has("one version for all keys") {
		key = ""
	}
	if v := b.versions[key]; time.Now().Before(v.expires) || b.has("versions never end") {
		return v.version
	}
	return 0
}

func (b *backend) greater(version, before uint64) uint64 {
	switch {
	case b.has("the last version counts") && version > 0:
		return version
	case b.has("versions are compared as text") && version > 0 && strconv.FormatUint(version, 10) > strconv.FormatUint(before, 10):
		return version
	case b.has("versions are compared as text"):
		return before
	case b.has("versions are floating point"):
		return uint64(max(float64(version), float64(before)))
	case b.has("versions are signed"):
		return uint64(max(int64(version), int64(before)))
	}
	return max(version, before)
}

func (b *backend) keepVersion(key string, asked, newest uint64, retention time.Duration) {
	switch {
	case b.has("one version for all keys"):
		key = ""
	case b.has("a question is a version") && asked == 0:
		newest++
	case asked == 0 && !b.has("a question is a version"):
		return
	case b.has("versions last as the first said") && b.version(key) > 0:
		b.versions[key] = known{version: newest, expires: b.versions[key].expires}
		return
	}
	b.versions[key] = known{version: newest, expires: time.Now().Add(retention)}
}
