package driver_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

func TestTTLs(t *testing.T) {
	seconds := driver.TTLs{Least: 1500 * time.Millisecond, Most: 10500 * time.Millisecond, Step: time.Second}
	for _, tc := range []struct {
		ttls              driver.TTLs
		ttl, fit, nearest time.Duration
		ok                bool
	}{
		{driver.TTLs{}, time.Second, time.Second, time.Second, true},
		{driver.TTLs{}, time.Second + 1, 1001 * time.Millisecond, 1001 * time.Millisecond, true},
		{driver.TTLs{}, driver.MinTTL, driver.MinTTL, driver.MinTTL, true},
		{driver.TTLs{}, driver.MaxTTL, driver.MaxTTL, driver.MaxTTL, true},
		{driver.TTLs{}, driver.MinTTL - time.Millisecond, driver.MinTTL - time.Millisecond, driver.MinTTL, false},
		{driver.TTLs{}, driver.MaxTTL + 1, driver.MaxTTL + time.Millisecond, driver.MaxTTL, false},
		{seconds, 2 * time.Second, 2 * time.Second, 2 * time.Second, true},
		{seconds, 1001 * time.Millisecond, 2 * time.Second, 2 * time.Second, true},
		{seconds, time.Second, time.Second, 2 * time.Second, false},
		{seconds, 9001 * time.Millisecond, 10 * time.Second, 10 * time.Second, true},
		{seconds, 10001 * time.Millisecond, 11 * time.Second, 10 * time.Second, false},
		{seconds, time.Hour, time.Hour, 10 * time.Second, false},
	} {
		fit, ok := tc.ttls.Fit(tc.ttl)
		if nearest := tc.ttls.Nearest(tc.ttl); fit != tc.fit || ok != tc.ok || nearest != tc.nearest {
			t.Errorf("%v of %v: Fit %v, %v; Nearest %v; want %v, %v; %v", tc.ttl, tc.ttls, fit, ok, nearest, tc.fit, tc.ok, tc.nearest)
		}
	}
}
