package natsstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// entry is the value of a key in the bucket. Times are those of the stream's leader.
type entry struct {
	Phase   driver.Mode     `json:"phase,omitempty"`
	Through uint64          `json:"through,omitempty"`
	Last    uint64          `json:"last,omitempty"`
	Arrived uint64          `json:"arrived,omitempty"`
	Holders []member        `json:"holders,omitempty"`
	Waiters []member        `json:"waiters,omitempty"`
	Record  *record         `json:"record,omitempty"`
	Version *version        `json:"version,omitempty"`
	Forced  []forcedRelease `json:"forced,omitempty"`
}

type member struct {
	Owner    string        `json:"owner"`
	Mode     driver.Mode   `json:"mode,omitempty"`
	Permits  int           `json:"permits,omitempty"`
	Arrived  uint64        `json:"arrived,omitempty"`
	Token    uint64        `json:"token,omitempty"`
	Reserved uint64        `json:"reserved,omitempty"`
	Since    time.Time     `json:"since"`
	Until    time.Time     `json:"until"`
	TTL      time.Duration `json:"ttl"`
	Partial  bool          `json:"partial,omitempty"`
	Released bool          `json:"released,omitempty"`
	Once     bool          `json:"once,omitempty"`
	Linger   bool          `json:"linger,omitempty"`
	Inbox    string        `json:"inbox,omitempty"`
	Rule     string        `json:"rule,omitempty"`
	Trace    string        `json:"trace,omitempty"`
}

type record struct {
	Owner         string    `json:"owner"`
	Until         time.Time `json:"until"`
	Fingerprint   []byte    `json:"fingerprint,omitempty"`
	Result        []byte    `json:"result,omitempty"`
	ResultNotKept bool      `json:"result_not_kept,omitempty"`
	Trace         string    `json:"trace,omitempty"`
}

type version struct {
	N     uint64    `json:"n"`
	Until time.Time `json:"until"`
}

// forcedRelease is why an owner has lost the key by force, kept for the owner for a while.
type forcedRelease struct {
	Owner  string    `json:"owner"`
	Token  uint64    `json:"token"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}

// errValue: an entry is not of this store.
var errValue = fmt.Errorf("%w: the value was not written by this store", driver.ErrForeign)

func decode(key string, value []byte) (e entry, err error) {
	if len(value) == 0 {
		return e, nil
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return e, fmt.Errorf("%w: %q: %w", errValue, key, err)
	}
	return e, nil
}

// key returns the key as package keystate decides about it.
func (e *entry) key(name string) *keystate.Key {
	k := &keystate.Key{Name: name, Last: e.Last, Arrived: e.Arrived}
	k.Mode, k.Through = e.Phase, e.Through
	for _, m := range e.Holders {
		k.Add(m.state(false))
	}
	for _, m := range e.Waiters {
		k.Add(m.state(true))
	}
	if r := e.Record; r != nil {
		k.Record = &keystate.Record{
			Record: driver.Record{Fingerprint: r.Fingerprint, Result: r.Result, ResultNotKept: r.ResultNotKept, Trace: r.Trace},
			Owner:  r.Owner, Until: r.Until,
		}
	}
	return k
}

// take makes e what k is now.
func (e *entry) take(k *keystate.Key) {
	e.Phase, e.Through, e.Last, e.Arrived = k.Mode, k.Through, k.Last, k.Arrived
	e.Holders, e.Waiters, e.Record = members(k.Holders()), members(k.Waiters()), nil
	if r := k.Record; r != nil {
		e.Record = &record{
			Owner: r.Owner, Until: r.Until, Fingerprint: r.Fingerprint, Result: r.Result,
			ResultNotKept: r.ResultNotKept, Trace: r.Trace,
		}
	}
}

func (m *member) state(waits bool) *keystate.Member {
	return &keystate.Member{
		Owner: m.Owner, Waits: waits, Mode: m.Mode, Permits: m.Permits, Arrived: m.Arrived, Token: m.Token, Reserved: m.Reserved,
		Since: m.Since, Until: m.Until, TTL: m.TTL, Partial: m.Partial, Released: m.Released, Once: m.Once, Linger: m.Linger,
		Inbox: m.Inbox, Rule: m.Rule, Trace: m.Trace,
	}
}

func members(from []*keystate.Member) []member {
	all := make([]member, len(from))
	for i, m := range from {
		all[i] = member{
			Owner: m.Owner, Mode: m.Mode, Permits: m.Permits, Arrived: m.Arrived, Token: m.Token, Reserved: m.Reserved,
			Since: m.Since, Until: m.Until, TTL: m.TTL, Partial: m.Partial, Released: m.Released, Once: m.Once, Linger: m.Linger,
			Inbox: m.Inbox, Rule: m.Rule, Trace: m.Trace,
		}
	}
	return all
}

// idle is how long an entry stays when nothing is in it any more, so that the next token follows the last.
const idle = 10 * time.Minute

// longest is more than any entry needs, and within what the servers can count.
const longest = 100 * 365 * 24 * time.Hour

// left is how long the entry has to stay: until the last thing in it is over, and a while longer.
func (e *entry) left(now time.Time) time.Duration {
	last := now
	note := func(until time.Time) {
		if until.After(last) {
			last = until
		}
	}
	for _, m := range e.Holders {
		note(m.Until)
	}
	for _, m := range e.Waiters {
		note(m.Until)
	}
	for _, f := range e.Forced {
		note(f.Until)
	}
	if e.Record != nil {
		note(e.Record.Until)
	}
	if e.Version != nil {
		note(e.Version.Until)
	}
	return min(last.Sub(now), longest) + idle
}

// keyNames are keys as names in the bucket.
var keyNames = casstore.Names{Plain: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/", Mark: '='}
