package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
)

// TestForgedCarriedText: whoever changes the text that carries a lease gets in only with what the holder
// has: its owner, its token, its mode, and no more time or hand-offs. The holder's lease stays as it is.
func TestForgedCarriedText(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	server := database(t)
	for name, claim := range map[string]driver.Claim{"exclusive": driver.Exclusive("x"), "shared": driver.Shared("s"), "permit": driver.Permit("p", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder, callee, stranger := engine(t, server), engine(t, server), engine(t, server)
			claims := []driver.Claim{claim}
			lease, err := holder.AcquireAll(within(t, 5*time.Second), claims, core.WithTTL(ttl))
			if err != nil {
				t.Fatal(err)
			}
			text := carry.Leases(lease.Context())
			excludes := []driver.Claim{{Key: claim.Key, Mode: driver.ModeExclusive}}
			try := func(forged string) {
				t.Helper()
				ctx := carry.Accept(within(t, 5*time.Second), forged)
				got, err := callee.AcquireAll(ctx, claims, core.WithFailFast(), core.WithTTL(ttl))
				switch borrowed := err == nil && got.Owner() == lease.Owner(); {
				case err != nil && !errors.Is(err, driver.ErrHeld):
					t.Errorf("%q: %v", forged, err)
				case borrowed && !saysNoMore(forged, text):
					t.Errorf("%q gets in, beside %q", forged, text)
				case forged == text && !borrowed:
					t.Errorf("%q does not get in: %v", forged, err)
				}
				if err == nil {
					_ = got.Release(context.Background())
				}
				if ends := leasesEnd(t, server.Client(), claim.Key); ends < ttl/4 || ends > ttl {
					t.Fatalf("%q: the key is held for %v", forged, ends)
				}
				if _, err := stranger.AcquireAll(within(t, 5*time.Second), excludes, core.WithFailFast()); !errors.Is(err, driver.ErrHeld) {
					t.Fatalf("%q: a stranger gets %v", forged, err)
				}
				if err := lease.Err(); err != nil {
					t.Fatalf("%q: the holder has lost its lease: %v", forged, err)
				}
			}
			try(text)
			rng := rand.New(rand.NewPCG(1, uint64(claim.Mode)))
			tries := 150
			if testing.Short() {
				tries = 20
			}
			for range tries {
				try(forge(rng, text))
			}
			if err := lease.Release(within(t, 5*time.Second)); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
}

// forge changes a field of text to something that is wrong or far too much, or bytes anywhere.
func forge(rng *rand.Rand, text string) string {
	fields := strings.Split(text, ";")
	number := func(s string) string {
		n, _ := strconv.ParseUint(s, 10, 64)
		return []string{"0", fmt.Sprint(n + 1), fmt.Sprint(n - 1), "9223372036854775807", "18446744073709551615", "18446744073709551616", "-1", "+" + s, "0" + s, "1e3", "", "1000", "86400000"}[rng.IntN(13)]
	}
	switch at := rng.IntN(8); at {
	case 0:
		fields[0] = []string{"", "*", "a/1/1/a/b", fields[0] + "x", fields[0][:len(fields[0])-1], strings.ToUpper(fields[0]), fields[0] + ":0", ":shared"}[rng.IntN(8)]
	case 1, 2, 3:
		fields[at] = number(fields[at])
	case 4:
		fields[4] = "esp"[rng.IntN(3):][:1] + fields[4][1:]
	case 5:
		fields[4] += fields[4]
	case 6:
		return strings.Repeat(text+",", 1+rng.IntN(9)) + text
	default:
		b := []byte(text)
		for range 1 + rng.IntN(3) {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
		return string(b)
	}
	return strings.Join(fields, ";")
}

// saysNoMore reports whether one of the leases in forged is that of text, for the same time and the same
// hand-offs or less. A grant of one lease reserves tokens for more hand-offs than there were, and one of
// its numbers is as true as the other.
func saysNoMore(forged, text string) bool {
	const reserved = 1000
	is := strings.Split(text, ";")
	for lease := range strings.SplitSeq(forged, ",") {
		says := strings.Split(strings.TrimSpace(lease), ";")
		if len(says) != len(is) || says[0] != is[0] || !strings.HasPrefix(says[4], is[4]) {
			continue
		}
		token, _ := strconv.ParseUint(says[1], 10, 64)
		handedOn, _ := strconv.ParseUint(says[2], 10, 64)
		ms, _ := strconv.ParseInt(says[3], 10, 64)
		if fmt.Sprint(token) == is[1] && handedOn <= reserved && ms <= 20_000 {
			return true
		}
	}
	return false
}
