package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Bounds of what is carried: it rides in the headers of requests.
const (
	maxCarriedLeases = 8
	maxCarriedBytes  = 8 << 10
)

// foreign is a lease as another process describes it. Nothing in it counts until
// the store has said so.
type foreign struct {
	owner  string
	token  uint64 // the grant's
	hands  uint64 // how often it was handed on before; its lease's token is that much greater
	ttl    time.Duration
	claims string // for each one its mode's letter and the hash of its key
}

// How a claim is written.
const (
	modeLetters  = "esp" // by Mode
	keyHashBytes = 8
	claimChars   = 1 + 2*keyHashBytes
)

// CarryLeases describes the leases that are in force in ctx, for a request to
// another process whose work is part of what is done under them: it can take the
// same keys then, instead of waiting for its own caller. The other side takes it
// in with [WithCarried]. The middlewares do both, where they are told to. "" if
// there is none.
//
// It is one line of printable ASCII without spaces: of at most 8 leases, the
// innermost first, owner, token of the grant, how often that was handed on, TTL,
// and for each claim its mode and 64 bits of its key's SHA-256, so that keys do not travel. What does not go into 8
// KiB is left out. What ctx itself was given by WithCarried goes on, verified or
// not.
//
// Whoever can read it can say that they work under the lease. So carry it to
// services of your own and not across the world.
//
// The leases must not be released before the other side is done, nor downgraded,
// which is a loss to it. Their TTL can't be changed any more ([Lease.Extend]): both
// sides renew them, and a shorter term for one would be the other's loss.
func CarryLeases(ctx context.Context) string {
	var all []string
	bytes, seen := 0, make(map[string]bool)
	add := func(owner, text string) {
		if seen[owner] || len(all) == maxCarriedLeases || bytes+len(text)+1 > maxCarriedBytes {
			return
		}
		seen[owner] = true
		all = append(all, text)
		bytes += len(text) + 1
	}
	for c := chainOf(ctx); c != nil; c = c.next {
		for _, f := range c.carried {
			add(f.owner, f.String())
		}
		if c.lease == nil || c.lease.Err() != nil {
			continue
		}
		for _, p := range c.lease.parts() {
			if f, ok := p.describe(); ok {
				add(f.owner, f.String())
			}
		}
	}
	return strings.Join(all, ",")
}

// describe says of a borrowed lease all that its holder did: the claims that were
// borrowed here may be fewer than those that matter further on.
func (l *Lease) describe() (f foreign, ok bool) {
	if l.borrowed != nil {
		return *l.borrowed, true
	}
	g, ok := l.watch.Share()
	if !ok {
		return foreign{}, false
	}
	return foreign{owner: g.Owner, token: g.Token, hands: l.grant.Hands, ttl: g.TTL, claims: describeClaims(g.Claims)}, true
}

func describeClaims(claims []Claim) string {
	b := make([]byte, 0, len(claims)*claimChars)
	for _, c := range claims {
		b = append(b, modeLetters[c.Mode])
		b = append(b, hashKey(c.Key)...)
	}
	return string(b)
}

func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:keyHashBytes])
}

func (f foreign) String() string {
	return f.owner + ";" + strconv.FormatUint(f.token, 10) + ";" + strconv.FormatUint(f.hands, 10) + ";" +
		strconv.FormatInt(f.ttl.Milliseconds(), 10) + ";" + f.claims
}

// WithCarried takes in what [CarryLeases] said in another process. An acquisition
// in the context returned that asks for a key of such a lease has the store
// verify it first. If the lease is in force with that owner, token and mode, and
// its TTL is not below the one in the text, then the key is borrowed: it is had at
// once, as by re-entrance ([Engine.Acquire]). Otherwise the acquisition is a
// stranger's, and waits in line. So a forged text or an old one gets nobody in, and
// neither does one with a stronger mode or a longer TTL. If the store does not
// answer the error is that of an acquisition.
//
// A borrowed lease is renewed here too: the key stays held while this work runs,
// though the caller's process may be paused, or gone. These renewals never shorten
// the holder's lease, and never extend it beyond the TTL that the holder chose,
// whatever the text says. The lease is never released here.
// When its holder has released it, or lost it, the next renewal finds out and ends
// its context, with a cause that matches ErrLeaseLost ([driver.LossOuter]). Until then,
// for at most a third of the TTL, this side works on without the lock: so the
// holder waits for the answer before it releases, and the end of its request,
// which comes sooner, is to be heeded.
//
// A text that is malformed, has more than 8 KiB or was "" leaves ctx as it is.
func WithCarried(ctx context.Context, carried string) context.Context {
	leases := parseCarried(carried)
	if len(leases) == 0 {
		return ctx
	}
	return &chain{Context: ctx, carried: leases, next: chainOf(ctx)}
}

// parseCarried returns nil for what CarryLeases does not write.
func parseCarried(s string) []foreign {
	if s == "" || len(s) > maxCarriedBytes {
		return nil
	}
	parts := strings.Split(s, ",")
	if len(parts) > maxCarriedLeases {
		return nil
	}
	leases := make([]foreign, len(parts))
	for i, part := range parts {
		f, ok := parseForeign(strings.TrimSpace(part)) // a proxy may have joined two lines
		if !ok {
			return nil
		}
		leases[i] = f
	}
	return leases
}

func parseForeign(s string) (foreign, bool) {
	fields := strings.Split(s, ";")
	if len(fields) != 5 {
		return foreign{}, false
	}
	f := foreign{owner: fields[0], claims: fields[4]}
	var err error
	if f.token, err = strconv.ParseUint(fields[1], 10, 64); err != nil || f.token == 0 {
		return foreign{}, false // a store takes 0 for "not known", and compares nothing
	}
	if f.hands, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		return foreign{}, false
	}
	ms, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || ms < driver.MinTTL.Milliseconds() || ms > driver.MaxTTL.Milliseconds() {
		return foreign{}, false
	}
	f.ttl = time.Duration(ms) * time.Millisecond
	// A store could take another client's value for something else.
	_, err = driver.ParseOwner(f.owner)
	return f, err == nil && areClaims(f.claims)
}

func areClaims(s string) bool {
	if s == "" || len(s)%claimChars != 0 {
		return false
	}
	for c := range slices.Chunk([]byte(s), claimChars) {
		if strings.IndexByte(modeLetters, c[0]) < 0 {
			return false
		}
		if _, err := hex.Decode(make([]byte, keyHashBytes), c[1:]); err != nil {
			return false
		}
	}
	return true
}
