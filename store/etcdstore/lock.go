package etcdstore

import (
	"encoding/json"
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
	Inbox    string      `json:"inbox,omitempty"`    // where to tell that the lease is wanted, if it may linger
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

// Standing implements [phasefair.Member]. A waiter that is not in etcd yet comes last.
func (m *member) Standing() phasefair.Standing {
	return phasefair.Standing{Owner: m.owner, Waits: m.waits(), Mode: m.Mode, Permits: m.Permits, Token: m.Token, Arrived: uint64(m.create)}
}

// readMember reads the key of a member.
func readMember(kv *mvccpb.KeyValue, owner string) (*member, error) {
	m := &member{owner: owner, create: kv.CreateRevision, mod: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease)}
	if err := json.Unmarshal(kv.Value, &m.memberValue); err != nil {
		return nil, foreign(kv, err)
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
	was     string // the value of the lock's own key; "": there is none
	rev     int64  // no member was written after it
	members phasefair.Members[*member]
	record  *record // nil: none is in force, or nobody has looked

	decided bool // the lock's own key has to be written
	freed   bool // a holder has gone, for whom a waiter may enter
	removed []*member
}

// clone returns a copy that can be changed.
func (l *lock) clone() *lock {
	c := *l
	c.decided, c.freed, c.removed = false, false, nil
	c.members = make(phasefair.Members[*member], len(l.members))
	for i, m := range l.members {
		n := *m
		c.members[i] = &n
	}
	return &c
}

func (l *lock) remove(m *member) {
	l.members.Remove(m)
	if m.mod != 0 {
		l.removed = append(l.removed, m)
	}
	l.freed = l.freed || !m.waits()
}

// phase is what package phasefair knows of the lock besides its members.
func (l *lock) phase() phasefair.Phase { return phasefair.Phase{Mode: l.Mode, Through: l.Through} }

func (l *lock) setPhase(p phasefair.Phase) { l.Mode, l.Through = p.Mode, p.Through }

// place is the lock as package phasefair decides about it. A waiter that takes the record instead, or
// is about to join the queue, is not in it.
func (l *lock) place() phasefair.Lock[*member] {
	phase := l.phase()
	if holders := l.members.Holders(); len(holders) > 0 {
		phase.Mode = holders[0].Mode // the lock's own key may be lost: it stays for a day only
	}
	return phasefair.Lock[*member]{Phase: phase, Members: slices.DeleteFunc(slices.Clone(l.members), func(m *member) bool {
		return m.waits() && (m.Once && l.record != nil || m.mod == 0)
	})}
}

// held is the error that says who is in the way of a request that is behind ahead others.
func (l *lock) held(ahead int) driver.HeldError {
	e := driver.HeldError{Key: l.key, Ahead: ahead}
	holders := l.members.Holders()
	if len(holders) == 0 {
		return e
	}
	last := holders[len(holders)-1]
	e.Holder, e.Trace = last.owner, string(last.Trace)
	return e
}
