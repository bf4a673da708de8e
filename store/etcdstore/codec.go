package etcdstore

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// The keys of etcd hold JSON, so that an operator can read them with etcdctl. Fields that a version does not
// know are ignored.

// lockValue is what the lock's own key keeps. Every decision that lets somebody in writes that key, and
// compares that nobody else has: two decisions never come from the same view.
type lockValue struct {
	Last    uint64      `json:"last"` // the greatest token given or reserved
	Mode    driver.Mode `json:"mode,omitempty"`
	Through uint64      `json:"through,omitempty"`
	At      int64       `json:"at,omitempty"` // Unix seconds; when the key was attached to its lease
}

// memberValue is what the key of a member keeps. A member without a token waits.
type memberValue struct {
	Token    uint64      `json:"token,omitempty"`
	Reserved uint64      `json:"reserved,omitempty"` // tokens after it that are its own; of a waiter, as many as it wants
	Mode     driver.Mode `json:"mode,omitempty"`
	Permits  int         `json:"permits,omitempty"`
	TTL      int64       `json:"ttl"`           // seconds; what the owner asked for last
	Lease    int64       `json:"lease"`         // seconds; the TTL of the lease of etcd that keeps this key
	Set      int         `json:"set,omitempty"` // how many claims that lease keeps
	Partial  bool        `json:"partial,omitempty"`
	Released bool        `json:"released,omitempty"` // by its owner; it stays for a while (R6)
	Once     bool        `json:"once,omitempty"`     // a waiter that also takes a record
	Others   bool        `json:"others,omitempty"`   // waited when it got the lock
	Since    int64       `json:"since"`              // Unix µs, by the clock of the process that wrote it
	Inbox    string      `json:"inbox,omitempty"`    // where to tell that the lease is wanted, if it may linger
	Rule     text        `json:"rule,omitempty"`
	Trace    text        `json:"trace,omitempty"`
}

// recordValue is what the key of a record keeps.
type recordValue struct {
	Owner       string `json:"owner"`
	Fingerprint []byte `json:"fingerprint,omitempty"`
	Result      []byte `json:"result,omitempty"`
	NotKept     bool   `json:"notKept,omitempty"`
	Trace       text   `json:"trace,omitempty"`
}

// forcedValue says why a lease was taken by force.
type forcedValue struct {
	Token  uint64 `json:"token"`
	Reason text   `json:"reason,omitempty"`
}

// text is a string that may not be UTF-8. JSON has it in base64, as it has bytes.
type text string

// MarshalText implements [encoding.TextMarshaler].
func (t text) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(t)), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *text) UnmarshalText(b []byte) error {
	plain, err := base64.StdEncoding.AppendDecode(nil, b)
	*t = text(plain)
	return err
}

// encode makes the value of a key. Its types can't fail.
func encode(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// entry is the key of a member as it was read or written. Nobody changes it.
type entry struct {
	memberValue
	owner       string
	create, mod int64 // revisions
	lease       clientv3.LeaseID
	raw         []byte // of one that was read: the value
}

func (e *entry) waits() bool         { return e.Token == 0 }
func (e *entry) ttl() time.Duration  { return time.Duration(e.TTL) * time.Second }
func (e *entry) term() time.Duration { return time.Duration(e.Lease) * time.Second }

// isIn reports whether it is what kv holds. Not by the revision: those begin anew if etcd loses its data.
func (e *entry) isIn(kv *mvccpb.KeyValue) bool {
	return e.create == kv.CreateRevision && e.mod == kv.ModRevision && e.lease == clientv3.LeaseID(kv.Lease) && bytes.Equal(e.raw, kv.Value)
}

// member is what package keystate knows of an entry. Waiters come in the order in which etcd made their keys.
func (e *entry) member() keystate.Member {
	m := keystate.Member{
		Owner: e.owner, Waits: e.waits(), Mode: e.Mode, Permits: e.Permits, Token: e.Token, Reserved: e.Reserved, TTL: e.ttl(),
		Since: time.UnixMicro(e.Since), Partial: e.Partial, Released: e.Released, Once: e.Once && e.waits(),
		Linger: e.Inbox != "", Inbox: e.Inbox, Rule: string(e.Rule), Trace: string(e.Trace),
	}
	if m.Waits {
		m.Arrived = uint64(e.create)
	}
	return m
}

// valueOf is what the key of m should hold, besides what a decision does not change.
func valueOf(m *keystate.Member, was *entry) (v memberValue) {
	if was != nil {
		v = was.memberValue
	}
	v.Token, v.Reserved, v.Mode, v.Permits, v.TTL = m.Token, m.Reserved, m.Mode, m.Permits, int64(m.TTL/time.Second)
	v.Partial, v.Released, v.Once, v.Since = m.Partial, m.Released, m.Once, m.Since.UnixMicro()
	v.Inbox, v.Rule, v.Trace = m.Inbox, text(m.Rule), text(m.Trace)
	return v
}

// readEntry reads the key of a member.
func readEntry(kv *mvccpb.KeyValue, owner string) (*entry, error) {
	e := &entry{owner: owner, create: kv.CreateRevision, mod: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease), raw: kv.Value}
	if err := json.Unmarshal(kv.Value, &e.memberValue); err != nil {
		return nil, foreign(kv, err)
	}
	return e, nil
}

func readRecord(kv *mvccpb.KeyValue) (*keystate.Record, error) {
	var v recordValue
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return nil, foreign(kv, err)
	}
	return &keystate.Record{Owner: v.Owner, Record: driver.Record{
		Fingerprint: v.Fingerprint, Result: v.Result, ResultNotKept: v.NotKept, Trace: string(v.Trace),
	}}, nil
}

func encodeRecord(r *keystate.Record) string {
	return encode(recordValue{Owner: r.Owner, Fingerprint: r.Fingerprint, Result: r.Result, NotKept: r.ResultNotKept, Trace: text(r.Trace)})
}

// ownerOf returns whose member key it is.
func ownerOf(part string) (owner string, ok bool) { return strings.CutPrefix(part, memberPart) }
