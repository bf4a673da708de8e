package etcdstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

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
	Once     bool        `json:"once,omitempty"`     // asked by Begin: a waiter also takes a record
	Others   bool        `json:"others,omitempty"`   // waited when it got the lock
	Since    int64       `json:"since"`              // Unix µs, by the clock of the process that wrote it
	Rule     []byte      `json:"rule,omitempty"`
	Trace    []byte      `json:"trace,omitempty"`
}

// member is an owner that holds a lock or waits for it.
type member struct {
	memberValue
	owner       string
	create, mod int64 // revisions; zero: it is not in etcd yet
	lease       clientv3.LeaseID

	changed  bool // since it was read
	attached bool // to another lease since it was read
}

func (m *member) waits() bool            { return m.Token == 0 }
func (m *member) ttl() time.Duration     { return time.Duration(m.TTL) * time.Second }
func (m *member) term() time.Duration    { return time.Duration(m.Lease) * time.Second }
func (m *member) heldFor() time.Duration { return max(0, time.Since(time.UnixMicro(m.Since))) }

// readMember reads the key of a member.
func readMember(kv *mvccpb.KeyValue, owner string) (*member, error) {
	m := &member{owner: owner, create: kv.CreateRevision, mod: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease)}
	if err := json.Unmarshal(kv.Value, &m.memberValue); err != nil {
		return nil, fmt.Errorf("etcdstore: %s: %w", kv.Key, err)
	}
	return m, nil
}

// encode makes the value of a key. Its types can't fail.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("etcdstore: " + err.Error())
	}
	return string(b)
}

// lock is a key with everybody who holds it or waits for it, as of a revision of etcd. A member
// whose lease has run out is not in etcd any more.
type lock struct {
	lockValue
	key     string
	mod     int64     // the revision of the last decision; zero: there is no lock key
	rev     int64     // no member was written after it
	members []*member // waiters as they came, after holders in the order of their tokens
	record  *record   // nil: none is in force, or nobody has looked

	decided bool // the lock's own key has to be written
	freed   bool // a holder has gone, for whom a waiter may enter
	removed []*member
}

// clone returns a copy that can be changed.
func (l *lock) clone() *lock {
	c := *l
	c.decided, c.freed, c.removed = false, false, nil
	c.members = make([]*member, len(l.members))
	for i, m := range l.members {
		n := *m
		c.members[i] = &n
	}
	return &c
}

// find returns owner's membership, or nil.
func (l *lock) find(owner string) *member {
	for _, m := range l.members {
		if m.owner == owner {
			return m
		}
	}
	return nil
}

// holding returns owner's lease, or nil. Token 0 stands for an owner that was not told its token.
func (l *lock) holding(owner string, token uint64) *member {
	m := l.find(owner)
	if m == nil || m.waits() || token != 0 && token != m.Token {
		return nil
	}
	return m
}

// holders are the leases in force, in order of their tokens.
func (l *lock) holders() []*member { return l.those(func(m *member) bool { return !m.waits() }) }

// waiters are the requests in the queue, in order of arrival.
func (l *lock) waiters() []*member { return l.those((*member).waits) }

func (l *lock) those(are func(*member) bool) []*member {
	var all []*member
	for _, m := range l.members {
		if are(m) {
			all = append(all, m)
		}
	}
	return all
}

// sort puts the members in order. A waiter that is not in etcd yet comes last.
func (l *lock) sort() {
	slices.SortStableFunc(l.members, func(a, b *member) int {
		if a.waits() && b.waits() {
			return cmp.Compare(uint64(a.create-1), uint64(b.create-1))
		}
		return cmp.Or(cmp.Compare(a.Token-1, b.Token-1), cmp.Compare(a.owner, b.owner))
	})
}

func (l *lock) remove(m *member) {
	l.members = slices.DeleteFunc(l.members, func(o *member) bool { return o == m })
	if m.mod != 0 {
		l.removed = append(l.removed, m)
	}
	l.freed = l.freed || !m.waits()
}

// phase is what package phasefair knows of the lock besides its members.
func (l *lock) phase() phasefair.Phase { return phasefair.Phase{Mode: l.Mode, Through: l.Through} }

func (l *lock) setPhase(p phasefair.Phase) { l.Mode, l.Through = p.Mode, p.Through }

// read is the lock as package phasefair decides about it, and the waiters behind its indices.
func (l *lock) read() (p phasefair.Lock, waiters []*member) {
	p.Phase = l.phase()
	for _, m := range l.members {
		if !m.waits() {
			p.Holders = append(p.Holders, phasefair.Holder{Owner: m.owner})
			continue
		}
		if m.Once && l.record != nil || m.mod == 0 {
			continue // it takes the record instead, or is about to join the queue
		}
		waiters = append(waiters, m)
		claim := driver.Claim{Key: l.key, Mode: m.Mode, Permits: m.Permits}
		p.Waiters = append(p.Waiters, phasefair.Queued{Waiter: phasefair.Waiter{Claim: claim, Arrived: uint64(m.create)}, Owner: m.owner})
	}
	if len(p.Holders) > 0 {
		// The lock's own key may be lost: it stays for a day only.
		p.Phase.Mode = l.holders()[0].Mode
	}
	return p, waiters
}

// place is the lock for a question to package phasefair that needs no waiters back.
func (l *lock) place() phasefair.Lock {
	p, _ := l.read()
	return p
}

// held is the error that says who is in the way of a request that is behind ahead others.
func (l *lock) held(ahead int) driver.HeldError {
	e := driver.HeldError{Key: l.key, Ahead: ahead}
	holders := l.holders()
	if len(holders) == 0 {
		return e
	}
	last := holders[len(holders)-1]
	e.Holder, e.Trace = last.owner, string(last.Trace)
	return e
}
