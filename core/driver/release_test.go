package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

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
