package carried

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// core sets these functions when the program starts.
var (
	// Leases describes the leases that are in force in ctx, the innermost first, and those
	// that ctx was given by Accept. An owner may come twice.
	Leases func(ctx context.Context) []Lease
	// Accept returns ctx with leases that another process has described.
	Accept func(ctx context.Context, leases []Lease) context.Context
)

// Lease is a lease as another process describes it. Nothing in it counts until the store has
// confirmed it.
type Lease struct {
	Owner    string
	Token    uint64 // the grant's
	HandedOn uint64 // how often the lease was handed on; its fencing token is that much greater
	TTL      time.Duration
	// Claims has, for each claim, the letter of its mode and the hash of its key.
	Claims string
}

const (
	modeLetters  = "esp" // by driver.Mode
	keyHashBytes = 8
	claimChars   = 1 + 2*keyHashBytes
)

// DescribeClaims makes the text of Lease.Claims.
func DescribeClaims(claims []driver.Claim) string {
	b := make([]byte, 0, len(claims)*claimChars)
	for _, c := range claims {
		b = append(b, modeLetters[c.Mode])
		b = append(b, HashKey(c.Key)...)
	}
	return string(b)
}

// AreClaims reports whether DescribeClaims may have made s.
func AreClaims(s string) bool {
	if s == "" || len(s)%claimChars != 0 {
		return false
	}
	for at := 0; at < len(s); at += claimChars {
		if strings.IndexByte(modeLetters, s[at]) < 0 {
			return false
		}
		if _, err := hex.DecodeString(s[at+1 : at+claimChars]); err != nil {
			return false
		}
	}
	return true
}

// HashKey is how a key is described: keys themselves do not travel.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:keyHashBytes])
}

// ClaimOn returns how the lease is said to have c's key, whose hash is given. The number of
// permits does not matter, because the lease holds one.
func (l Lease) ClaimOn(c driver.Claim, hash string) (driver.Claim, bool) {
	for at := 0; at < len(l.Claims); at += claimChars {
		if l.Claims[at+1:at+claimChars] != hash {
			continue
		}
		switch mode := driver.Mode(strings.IndexByte(modeLetters, l.Claims[at])); {
		case mode != driver.ModePermit:
			return driver.Claim{Key: c.Key, Mode: mode}, true
		case c.Mode == driver.ModePermit:
			return c, true
		default:
			return driver.Permit(c.Key, 1), true
		}
	}
	return driver.Claim{}, false
}
