// Package carry lets work in another process run under the leases of its caller. A caller
// that holds a key, and waits for a service that needs the same key, would otherwise wait for
// itself: the caller describes its leases in a request header ([Leases]), and the service
// takes the description in ([Accept]).
//
//	r.Header.Set(carry.Header, carry.Leases(ctx))              // the caller
//	ctx = carry.Accept(r.Context(), r.Header.Get(carry.Header)) // the service
//
// The packages experimental of the middlewares do both. Use it between services of your own
// only: everybody who can read the header can claim to work under the lease.
//
// The package is experimental, as its place says: its API and the text that it writes may
// change with every version. All functions are safe for concurrent use.
//
// # What a borrower may rely on
//
// [Leases] describes the leases of a context in one line of text: owners, tokens, TTLs and
// hashes of keys. [Accept] reads the text on the other side, the borrower. Nothing in it
// counts until the store has renewed a grant with that owner, token and mode (N5). So a
// forged, stale or replayed text is a stranger's. The TTL in the text is checked, too: the
// store keeps, beside the lease, the TTL that the owner asked for last. A borrower with a
// longer TTL is a stranger, and a borrower's renewal never brings the end of the lease nearer
// (N7). So an altered text neither shortens the holder's lease nor blocks the key for longer
// than its TTL, and the borrower never counts on more than the store has. Only how often the
// lease was handed on is not compared: the store learns of it seldom. So a text with another
// number there gets another one of the lease's reserved tokens, which may be the greater one.
// While an Extend is under way or unanswered, the text has the shortest TTL that was asked
// for. Both sides renew a borrowed lease, so its TTL cannot be changed any more. The borrower
// never releases it, and learns of its end at its next renewal. Packages beside the
// middlewares do both for their frameworks. core gives the package its two functions through
// core/internal/carried, so that users of core see none of it.
package carry

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/carried"

	_ "github.com/keyturn/keyturn/core" // it sets the functions of package carried
)

// Header is the name of the header, of a request or of a task, that the middlewares use.
const Header = "keyturn-lease"

// The text is sent in the headers of requests, so it is bounded.
const (
	maxLeases = 8
	maxBytes  = 8 << 10
)

// Leases describes the leases that are in force in ctx, for a request to another process
// whose work is part of the work under them. It returns "" if there is none.
//
// The text is one line of printable ASCII without spaces, of at most 8 KiB. It has at most 8
// leases, the innermost first: the owner, the token of the grant, how often it was handed on,
// the TTL, and for each claim its mode and 64 bits of its key's SHA-256, so that keys do not
// travel. Leases that do not fit are left out. Leases that ctx was given by [Accept] are included, verified or not.
//
// The caller must keep the leases until the other side is done. A release or a
// core.Lease.Downgrade before that is a loss to the other side. From now on the TTL of these
// leases can't be changed (core.Lease.Extend), because both sides renew them.
func Leases(ctx context.Context) string {
	var all []string
	bytes, seen := 0, make(map[string]bool)
	for _, l := range carried.Leases(ctx) {
		text := format(l)
		if seen[l.Owner] || len(all) == maxLeases || bytes+len(text)+1 > maxBytes {
			continue
		}
		seen[l.Owner] = true
		all = append(all, text)
		bytes += len(text) + 1
	}
	return strings.Join(all, ",")
}

// Accept returns a context under the leases that [Leases] described in another process. It
// does no I/O. It returns ctx itself if the text is "", malformed, or longer than 8 KiB.
//
// An acquisition in that context that asks for a key of such a lease has the store verify the
// lease first. If the lease is in force with that owner, token and mode, and its TTL is not
// below the one in the text, the key is borrowed: the acquisition gets it at once, as if it
// were nested (core.Engine.Acquire). Otherwise the acquisition waits in line like any other.
// So a text that is forged or old admits nobody, and neither does one with a stronger mode or
// a longer TTL. If the store does not answer, the error is that of an acquisition.
//
// A borrowed lease is renewed here, too, so the key stays held while this work runs, even if
// the caller's process is paused or gone. These renewals never shorten the holder's lease, and
// never extend it beyond the TTL that the holder chose. A borrowed lease is never released
// here. When its holder has released or lost it, the next renewal, after a third of the TTL at
// most, ends its context with a cause that matches core.ErrLeaseLost (driver.LossOuter). Until
// then this side works without the lock. So the holder must wait for the answer before it
// releases, and this side should end its work when its request ends, which comes sooner.
func Accept(ctx context.Context, text string) context.Context {
	leases := parseAll(text)
	if len(leases) == 0 {
		return ctx
	}
	return carried.Accept(ctx, leases)
}

func format(l carried.Lease) string {
	return l.Owner + ";" + strconv.FormatUint(l.Token, 10) + ";" + strconv.FormatUint(l.HandedOn, 10) + ";" +
		strconv.FormatInt(l.TTL.Milliseconds(), 10) + ";" + l.Claims
}

// parseAll returns nil for a text that Leases does not write.
func parseAll(s string) []carried.Lease {
	if s == "" || len(s) > maxBytes {
		return nil
	}
	parts := strings.Split(s, ",")
	if len(parts) > maxLeases {
		return nil
	}
	leases := make([]carried.Lease, len(parts))
	for i, part := range parts {
		l, ok := parse(strings.TrimSpace(part)) // a proxy may have joined two lines
		if !ok {
			return nil
		}
		leases[i] = l
	}
	return leases
}

func parse(s string) (l carried.Lease, ok bool) {
	fields := strings.Split(s, ";")
	if len(fields) != 5 || !carried.AreClaims(fields[4]) {
		return l, false
	}
	// A store could mistake another client's value for something else.
	if _, err := driver.ParseOwner(fields[0]); err != nil {
		return l, false
	}
	token, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || token == 0 { // for a store, 0 means "not known", so it would compare nothing
		return l, false
	}
	handedOn, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return l, false
	}
	ms, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || ms < driver.MinTTL.Milliseconds() || ms > driver.MaxTTL.Milliseconds() {
		return l, false
	}
	return carried.Lease{Owner: fields[0], Token: token, HandedOn: handedOn, TTL: time.Duration(ms) * time.Millisecond, Claims: fields[4]}, true
}
