package keystate_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// backend is the simplest one on which package keystate makes a store: rows behind one mutex, which a
// request reads, decides about, and writes.
type backend struct {
	mu       sync.Mutex
	rows     map[string]row
	versions map[string]keystate.Version
	forced   map[[2]string]string // reasons, by key and owner
	bells    map[string]chan struct{}
	stores   map[string]*store
	// late: waiters are read without their owners and notes until it is their turn, and the backend numbers
	// them when they are written, as ZooKeeper does.
	late bool
}

// row is what the backend has of a key.
type row struct {
	key     keystate.Key // without members
	members []keystate.Member
}

func newBackend(late bool) *backend {
	return &backend{
		rows: map[string]row{}, versions: map[string]keystate.Version{}, forced: map[[2]string]string{}, bells: map[string]chan struct{}{},
		stores: map[string]*store{}, late: late,
	}
}

// standIn begins a name that stands for an owner that is not known yet.
const standIn = "\x00"

// read makes a key of its row, whose members come in no particular order. It knows owner.
func (b *backend) read(name, owner string) *keystate.Key {
	r := b.rows[name]
	k := &keystate.Key{Name: name, Phase: r.key.Phase, Last: r.key.Last, Arrived: r.key.Arrived, Record: r.key.Record}
	if b.late {
		k.Arrived = 0
	}
	for _, stored := range slices.Backward(r.members) {
		m := stored
		m.Ref, m.Extended = &stored, false
		if b.late && m.Waits && m.Owner != owner {
			m = keystate.Member{Owner: standIn + m.Owner, Waits: true, Mode: m.Mode, Permits: m.Permits, Arrived: m.Arrived, Once: m.Once, Ref: m.Ref}
		}
		k.Add(&m)
	}
	return k
}

// complete reads the rest of waiters.
func complete(_ *keystate.Key, waiters []*keystate.Member) error {
	for _, m := range waiters {
		if s, ok := m.Ref.(*keystate.Member); ok {
			m.Owner, m.Reserved, m.Since, m.TTL, m.Partial = s.Owner, s.Reserved, s.Since, s.TTL, s.Partial
			m.Linger, m.Inbox, m.Rule, m.Trace = s.Linger, s.Inbox, s.Rule, s.Trace
		}
	}
	return nil
}

func (b *backend) write(k *keystate.Key) {
	r := row{key: keystate.Key{Phase: k.Phase, Last: k.Last, Arrived: k.Arrived, Record: k.Record}}
	if b.late {
		r.key.Arrived = b.rows[k.Name].key.Arrived + 1 // the backend's own count
	}
	for _, m := range slices.Concat(k.Holders(), k.Waiters()) {
		stored, old := m.Ref.(*keystate.Member)
		switch {
		case b.late && m.Waits && old:
			r.members = append(r.members, *stored)
			continue
		case b.late && m.Waits:
			m.Arrived = r.key.Arrived
		}
		r.members = append(r.members, *m)
	}
	b.rows[k.Name] = r
}

// transact decides about keys. owner is whose request it is, if it may wait.
func (b *backend) transact(keys []string, owner string, decide func(*keystate.State) error) error {
	b.mu.Lock()
	st, err := b.step(keys, owner, decide)
	b.mu.Unlock()
	if w := st.Wanted; w != nil && err == nil {
		b.stores[w.Inbox].wanted(w.Key, w.Owner)
	}
	return err
}

// step is one decision. It needs the mutex.
func (b *backend) step(keys []string, owner string, decide func(*keystate.State) error) (*keystate.State, error) {
	st := &keystate.State{Now: time.Now()}
	if b.late {
		st.Complete = complete
	}
	left := map[string]time.Duration{} // until there is room
	for _, name := range keys {
		k := b.read(name, owner)
		st.Keys, left[name] = append(st.Keys, k), st.Held(k).RetryAfter
	}
	if err := decide(st); err != nil {
		return st, err
	}
	for _, k := range st.Keys {
		b.write(k)
		if st.Held(k).RetryAfter < left[k.Name] {
			for _, w := range k.Waiters() { // they sleep until then, and the end has come nearer
				b.ring(w.Owner)
			}
		}
	}
	for _, w := range st.Woken {
		b.ring(w.Owner)
	}
	return st, nil
}

func (b *backend) ring(owner string) {
	select {
	case b.bells[strings.TrimPrefix(owner, standIn)] <- struct{}{}:
	default:
	}
}

// lost says why a lease was lost.
func (b *backend) lost(g *driver.Grant, err error) error {
	if loss, ok := err.(*driver.LeaseLostError); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		if reason, ok := b.forced[[2]string{loss.Key, g.Owner}]; ok {
			loss.Reason, loss.Detail = driver.LossForced, reason
		}
	}
	return err
}

// store is a process with the backend.
type store struct {
	*backend
	inbox  string
	wanted func(key, owner string)
	life   context.Context
	end    context.CancelFunc
}

func (b *backend) open(testing.TB) driver.Store {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &store{backend: b, inbox: string(rune('A' + len(b.stores)))}
	s.life, s.end = context.WithCancel(context.Background())
	b.stores[s.inbox] = s
	return s
}

func (s *store) Describe() driver.Description {
	return driver.Description{
		Name: "simplest", Shared: true, Permits: true, Sets: true, MinHold: true, Ledger: true, Inspector: true,
		OnWanted: func(f func(key, owner string)) { s.wanted = f },
	}
}

func (s *store) Close() error {
	s.end()
	return nil
}

func (s *store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := s.acquire(ctx, keystate.Request{Request: req})
	return g, err
}

func (s *store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.acquire(ctx, keystate.Request{Request: req, Once: true})
}

func (s *store) acquire(ctx context.Context, r keystate.Request) (driver.Grant, *driver.Record, error) {
	if err := driver.CheckLease(r.Owner, r.Claims, r.TTL); err != nil {
		return driver.Grant{}, nil, err
	}
	if r.Linger = r.Linger && s.wanted != nil; r.Linger {
		r.Inbox = s.inbox
	}
	bell := make(chan struct{}, 1)
	s.mu.Lock()
	s.bells[r.Owner] = bell
	s.mu.Unlock()
	var ended error
	for {
		if s.life.Err() != nil {
			return driver.Grant{}, nil, driver.ErrClosed
		}
		var a keystate.Answer
		sent, lingers := time.Now(), false
		err := s.transact(driver.Keys(r.Claims), r.Owner, func(st *keystate.State) (err error) {
			a, err = st.Acquire(&r)
			lingers = a.Member != nil && a.Member.Lingers()
			return err
		})
		switch {
		case err != nil:
			return driver.Grant{}, nil, err
		case a.Record != nil:
			rec := a.Record.Record
			rec.Result, rec.Fingerprint = slices.Clone(rec.Result), slices.Clone(rec.Fingerprint)
			return driver.Grant{}, &rec, nil
		case a.Held == nil:
			return driver.Grant{
				Owner: r.Owner, Claims: r.Claims, TTL: r.TTL, Token: a.Token, HandOffs: a.Reserved, Since: sent, Contended: a.Contended, Lingers: lingers,
			}, nil, nil
		case !r.Wait:
			return driver.Grant{}, nil, cmp.Or(ended, error(a.Held))
		}
		if r.OnHeld != nil {
			r.OnHeld(*a.Held)
		}
		nap := a.Held.RetryAfter
		if len(r.Claims) > 1 {
			nap = min(nap, r.TTL/3)
		}
		select {
		case <-bell:
		case <-time.After(nap):
		case <-ctx.Done():
			r.Wait = false
		case <-s.life.Done():
			_ = s.transact(driver.Keys(r.Claims), r.Owner, func(st *keystate.State) error { return st.Withdraw(r.Owner) })
		}
	}
}

func (s *store) Renew(_ context.Context, grants []driver.Grant) []error {
	errs := make([]error, len(grants))
	for i := range grants {
		errs[i] = s.about(&grants[i], func(st *keystate.State) error { return st.Renew(&grants[i]) })
	}
	return errs
}

func (s *store) Downgrade(_ context.Context, g driver.Grant) error {
	return s.about(&g, func(st *keystate.State) error { return st.Downgrade(&g) })
}

func (s *store) about(g *driver.Grant, decide func(*keystate.State) error) error {
	if s.life.Err() != nil {
		return driver.ErrClosed
	}
	return s.lost(g, s.transact(driver.Keys(g.Claims), "", decide))
}

func (s *store) Release(_ context.Context, g driver.Grant) (err error) {
	var loss error
	err = s.transact(driver.Keys(g.Claims), "", func(st *keystate.State) (err error) {
		loss, err = st.Release(&g)
		return err
	})
	return s.lost(&g, cmp.Or(err, loss))
}

func (s *store) Complete(_ context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	if err := driver.CheckOnce(g.Claims); err != nil {
		return err
	}
	rec.Result, rec.Fingerprint = slices.Clone(rec.Result), slices.Clone(rec.Fingerprint)
	return s.about(&g, func(st *keystate.State) error {
		_, err := st.Finish(&g, &keystate.Record{Record: rec, Owner: g.Owner, Until: st.Now.Add(retention)})
		return err
	})
}

func (s *store) AdvanceVersion(_ context.Context, key string, n uint64, retention time.Duration) (uint64, error) {
	if s.life.Err() != nil {
		return 0, driver.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.versions[key].AdvanceVersion(n, retention, time.Now())
	s.versions[key] = v
	return v.N, nil
}

func (s *store) Forget(_ context.Context, key string) (had bool, err error) {
	err = s.transact([]string{key}, "", func(st *keystate.State) error {
		err := st.Settle()
		had = st.Keys[0].Record != nil || s.versions[key].AdvanceVersion(0, 0, st.Now).N > 0
		st.Keys[0].Record = nil
		delete(s.versions, key)
		return err
	})
	return had, err
}

func (s *store) Inspect(_ context.Context, key string) (driver.LockInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := keystate.State{Now: time.Now()}
	k := s.read(key, "")
	_ = complete(k, k.Waiters())
	return st.Show(k), nil
}

func (s *store) List(ctx context.Context, q driver.Listing) (page []driver.LockInfo, next string, err error) {
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.rows))
	s.mu.Unlock()
	for _, name := range names {
		if info, _ := s.Inspect(ctx, name); strings.HasPrefix(name, q.Prefix) && q.Shows(info) {
			page = append(page, info)
		}
	}
	return page, "", nil
}

func (s *store) ForceRelease(_ context.Context, key, reason string, only ...driver.Holder) (gone []driver.Holder, err error) {
	err = s.transact([]string{key}, "", func(st *keystate.State) (err error) {
		gone, err = st.Force(st.Keys[0], reason, only)
		for _, f := range st.Forced {
			s.forced[[2]string{key, f.Owner}] = f.Reason
		}
		return err
	})
	return gone, err
}
