package drivertest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// seconds is a store that keeps leases for whole seconds, as etcd does. It counts what it was
// asked for that it can't keep.
type seconds struct {
	driver.Store
	t testing.TB
}

func (s seconds) Describe() driver.Description {
	d := s.Store.Describe()
	d.TTLs = driver.TTLs{Least: 2 * time.Second, Most: 45 * time.Second, Step: time.Second}
	return d
}

func (s seconds) check(ttl time.Duration) error {
	if fit, ok := s.Describe().TTLs.Fit(ttl); !ok || fit != ttl {
		s.t.Errorf("asked for %v", ttl)
		return fmt.Errorf("no TTL for this store: %v", ttl)
	}
	return nil
}

func (s seconds) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if err := s.check(req.TTL); err != nil {
		return driver.Grant{}, err
	}
	return s.Store.Acquire(ctx, req)
}

func (s seconds) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if err := s.check(req.TTL); err != nil {
		return driver.Grant{}, nil, err
	}
	return s.Store.Begin(ctx, req)
}

func (s seconds) Renew(ctx context.Context, grants []driver.Grant) []error {
	for _, g := range grants {
		if !g.Borrowed { // which may claim anything (N7)
			_ = s.check(g.TTL)
		}
	}
	return s.Store.Renew(ctx, grants)
}

// TestStoreOfWholeSeconds: the suite asks for nothing that the store does not keep.
func TestStoreOfWholeSeconds(t *testing.T) {
	mem := memstore.New()
	Run(t, Harness{
		New:    func(t testing.TB) driver.Store { return seconds{mem.Peer(), t} },
		Around: synctest.Test,
	})
}
