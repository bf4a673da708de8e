package drivertest

import (
	"context"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestSkipsSayWhy(t *testing.T) {
	full := newBackend("").harness()
	noCut, noPause, silentNever := full, full, full
	noCut.Cut = nil
	noPause.Resume = nil
	silentNever.Heal, silentNever.Pause = nil, nil
	for _, tc := range []struct {
		name string
		c    check
		h    Harness
		want string // part of the reason; "": not skipped
	}{
		{"nothing needed", check{}, Harness{}, ""},
		{"restart", check{needs: toRestart}, full, ""},
		{"no restart", check{needs: toRestart}, Harness{}, "no Harness.Restart"},
		{"cut", check{needs: toCut}, noPause, ""},
		{"no cut", check{needs: toCut}, noCut, "no Harness.Cut"},
		{"silent by pause", check{needs: toSilence}, noCut, ""},
		{"silent by cut", check{needs: toSilence}, noPause, ""},
		{"silent never", check{needs: toSilence}, silentNever, "no Harness.Pause"},
		{"Begin elsewhere", check{name: "L3 Begin A1"}, Harness{Elsewhere: "another"}, "another does it"},
		{"Acquire not elsewhere", check{name: "A1"}, Harness{Elsewhere: "another"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			why := tc.c.skipped(tc.h)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("skipped: %q, want %q", why, tc.want)
			}
		})
	}
}

func TestSkipsWhatIsNotListed(t *testing.T) {
	all := memstore.New().Describe()
	for _, d := range []driver.Description{shares, permits, inSets, records, {Inspector: true}} {
		if why := (check{can: d}).beyond(driver.Description{}); why == "" {
			t.Errorf("%+v is not skipped", d)
		}
		if why := (check{can: d}).beyond(all); why != "" {
			t.Errorf("%+v is skipped: %s", d, why)
		}
	}
	if why := (check{}).beyond(driver.Description{}); why != "" {
		t.Errorf("what every store can do is skipped: %s", why)
	}
}

// boaster lists everything and refuses what is optional.
type boaster struct {
	driver.Unsupported
	mem *memstore.Store
}

func (b boaster) Describe() driver.Description { return b.mem.Describe() }

func (b boaster) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	return b.mem.Acquire(ctx, req)
}

func (b boaster) Renew(ctx context.Context, grants []driver.Grant) []error {
	return b.mem.Renew(ctx, grants)
}
func (b boaster) Release(ctx context.Context, g driver.Grant) error { return b.mem.Release(ctx, g) }
func (b boaster) Close() error                                      { return b.mem.Close() }

func TestListedIsExpected(t *testing.T) {
	h := Harness{New: func(testing.TB) driver.Store { return boaster{mem: memstore.New()} }}
	for _, c := range checks() {
		if (c.can.Ledger || c.can.Inspector) && c.skipped(h) == "" && len(verdict(t, c, h)) == 0 {
			t.Errorf("%q passed a store that refuses what it lists", c.name)
		}
	}
}
