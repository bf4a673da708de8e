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
	err = p.call(ctx, func() {
		before := p.version(key)
		newest = p.greater(version, before)
		p.keepVersion(key, version, newest, retention)
		if p.has("a version leaves the lease free") {
			p.at(key).holders = nil
		}
	})
	if err != nil && p.has("an outage of versions is the context's error") {
		return 0, ctx.Err()
	}
	return newest, err
}

// version is the one in force, 0 for none; the caller has the mutex.
func (b *backend) version(key string) uint64 {
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
	}
	return max(version, before)
}

func (b *backend) keepVersion(key string, asked, newest uint64, retention time.Duration) {
	switch {
	case b.has("a question is a version") && asked == 0:
		newest++
	case asked == 0 && !b.has("a question is a version"):
		return
	}
	b.versions[key] = known{version: newest, expires: time.Now().Add(retention)}
}
