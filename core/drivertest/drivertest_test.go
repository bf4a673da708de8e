package drivertest

import (
	"flag"
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
		{"ledger", check{ledger: true}, full, ""},
		{"no ledger", check{ledger: true}, Harness{NoLedger: true}, "Harness.NoLedger"},
		{"no inspector", check{shows: true}, Harness{NoInspector: true}, "Harness.NoInspector"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			why := tc.c.skipped(tc.h)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("skipped: %q, want %q", why, tc.want)
			}
		})
	}
}

// TestSkipsWhatIsNotListed has a store that lists nothing and shows nothing.
func TestSkipsWhatIsNotListed(t *testing.T) {
	type plain struct{ driver.Store }
	for _, c := range []check{{can: shares}, {can: permits}, {can: inSets}, {shows: true}} {
		if why := c.beyond(plain{}); why == "" {
			t.Errorf("%+v is not skipped", c)
		}
		if why := c.beyond(memstore.New()); why != "" {
			t.Errorf("%+v is skipped: %s", c, why)
		}
	}
	if why := (check{}).beyond(plain{}); why != "" {
		t.Errorf("what every store can is skipped: %s", why)
	}
}

// TestLedgerIsExpected: a store whose records are not tested must say so.
func TestLedgerIsExpected(t *testing.T) {
	type plain struct{ driver.Store }
	h := Harness{New: func(testing.TB) driver.Store { return plain{memstore.New()} }}
	for _, c := range checks() {
		if c.ledger && !c.shows && c.skipped(h) == "" && len(verdict(t, c, h)) == 0 {
			t.Errorf("%q passed a store that is no driver.Ledger", c.name)
		}
	}
}

// TestBench has every benchmark do a little of everything it does.
func TestBench(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime").Value
	defer benchtime.Set(benchtime.String())
	benchtime.Set("2000x")
	mem := memstore.New()
	h := Harness{New: func(testing.TB) driver.Store { return mem.Peer() }}
	benchmarks := map[string]func(*scene, *testing.B){
		"pair": benchPair, "pairs": benchPairs, "hot key": benchHotKey, "renew": benchRenew,
		"readers and writers": benchReadersAndWriters, "set": benchSet,
		"mode": func(s *scene, b *testing.B) { s.claim = permit(2); benchMode(s, b) },
	}
	for name, bench := range benchmarks {
		if r := testing.Benchmark(func(b *testing.B) { bench(newScene(b, h, check{}), b) }); r.N == 0 {
			t.Errorf("%s did nothing: %v", name, r)
		}
	}
}
