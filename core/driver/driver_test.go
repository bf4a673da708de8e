package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

func TestCheckLease(t *testing.T) {
	a, b := driver.Exclusive("a"), driver.Shared("b")
	one := []driver.Claim{a}
	for name, c := range map[string]struct {
		owner  string
		claims []driver.Claim
		ttl    time.Duration
		want   error // nil: all is fine
	}{
		"one":                {"o", one, time.Millisecond, nil},
		"in order":           {"o", []driver.Claim{a, b}, time.Second, nil},
		"no claims":          {"o", nil, time.Second, driver.ErrInvalidClaim},
		"not in order":       {"o", []driver.Claim{b, a}, time.Second, driver.ErrInvalidClaim},
		"a key twice":        {"o", []driver.Claim{a, driver.Shared("a")}, time.Second, driver.ErrInvalidClaim},
		"no key":             {"o", []driver.Claim{driver.Exclusive("")}, time.Second, driver.ErrInvalidKey},
		"no permit":          {"o", []driver.Claim{a, driver.Permit("b", 0)}, time.Second, driver.ErrInvalidClaim},
		"a bad one behind":   {"o", []driver.Claim{a, {Key: "b", Mode: 9}}, time.Second, driver.ErrInvalidClaim},
		"the longest owner":  {strings.Repeat("o", driver.MaxOwnerBytes), one, time.Second, nil},
		"a longer owner":     {strings.Repeat("o", driver.MaxOwnerBytes+1), one, time.Second, driver.ErrInvalidOwner},
		"no owner":           {"", one, time.Second, driver.ErrInvalidOwner},
		"a colon":            {"o:p", one, time.Second, driver.ErrInvalidOwner},
		"white space":        {"o\tp", one, time.Second, driver.ErrInvalidOwner},
		"a zero":             {"o\x00", one, time.Second, driver.ErrInvalidOwner},
		"an owner in Latin1": {"\xe4", one, time.Second, driver.ErrInvalidOwner},
		"no TTL":             {"o", one, 0, driver.ErrInvalidOption},
		"microseconds":       {"o", one, time.Millisecond - 1, driver.ErrInvalidOption},
	} {
		if err := driver.CheckLease(c.owner, c.claims, c.ttl); !errors.Is(err, c.want) {
			t.Errorf("%s: CheckLease = %v, want %v", name, err, c.want)
		}
	}
}

func TestConfigure(t *testing.T) {
	type config struct{ set []string }
	type option func(*config) error
	errBad := errors.New("bad")
	set := func(name string, err error) option {
		return func(c *config) error {
			c.set = append(c.set, name)
			return err
		}
	}
	var c config
	errs := driver.Configure(&c, "Open", []option{set("a", nil), nil, set("b", errBad), set("c", nil)})
	var none *driver.OptionError
	if len(errs) != 2 || !errors.As(errs[0], &none) || none.Option != "Open" || !errors.Is(errs[1], errBad) {
		t.Errorf("got %v", errs)
	}
	if len(c.set) != 3 {
		t.Errorf("an error keeps later options from being checked: %v", c.set)
	}
	if errs := driver.Configure(&c, "Open", []option{set("a", nil)}); errs != nil {
		t.Error(errs)
	}
}

func TestRepeated(t *testing.T) {
	taken := &driver.LeaseLostError{Reason: driver.LossTaken}
	forced := &driver.LeaseLostError{Reason: driver.LossForced}
	silent := &driver.UnavailableError{Op: "release"}
	now := time.Now()
	for name, c := range map[string]struct {
		g         driver.Grant
		err, want error
	}{
		"an earlier attempt ended it": {driver.Grant{TTL: time.Minute, Since: now}, taken, nil},
		"it may have run out":         {driver.Grant{TTL: time.Minute, Since: now.Add(-time.Hour)}, taken, taken},
		"its first term may be over":  {driver.Grant{TTL: time.Minute, Term: time.Second, Since: now.Add(-2 * time.Second)}, taken, taken},
		"nobody knows since when":     {driver.Grant{TTL: time.Minute}, taken, taken},
		"taken by force":              {driver.Grant{TTL: time.Minute, Since: now}, forced, forced},
		"still no answer":             {driver.Grant{TTL: time.Minute, Since: now}, silent, silent},
		"released by this attempt":    {driver.Grant{TTL: time.Minute, Since: now}, nil, nil},
	} {
		if got := driver.RepeatedRelease(c.g, c.err); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

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
