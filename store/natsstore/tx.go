package natsstore

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// tx is one attempt at a decision: the entries as they were read, and as they are to be.
type tx struct {
	keystate.State
	s        *Store
	sent     time.Time // a moment before the leader told its time
	replicas int
	entries  []*slot // of the keys
}

// slot is an entry with what it was when it was read.
type slot struct {
	entry
	value  []byte
	number uint64
}

// transact decides, and does so again if others were in the way or a server did not answer.
func (s *Store) transact(ctx context.Context, a casstore.Aim, decide func(*tx) error) (unsure bool, err error) {
	unsure = a.Unsure
	synced := false
	for r := (retries{waits: a.Waits}); ; {
		t := &tx{s: s, State: keystate.State{Rules: &s.rules}}
		written, err := t.attempt(ctx, r.silent, a.Keys, decide)
		switch {
		case (casstore.IsAnswer(err) || err == nil && a.Looks && !written) && t.replicas > 1 && !synced:
			if err = s.bucket.sync(ctx); err == nil {
				synced = true
				continue
			}
		case casstore.IsAnswer(err):
			return unsure, err
		case err == nil:
			t.tell()
			return unsure, nil
		}
		unsure = unsure || written && !isConflict(err)
		if !r.again(ctx, err) {
			return unsure, err
		}
	}
}

// retries bounds the attempts of a request.
type retries struct {
	waits     bool // it has more patience with servers that do not answer
	conflicts int
	silent    int
	since     time.Time // since when the servers have not answered
}

// electionTime is more than the servers need to choose another leader of the bucket.
const electionTime = 15 * time.Second

// again pauses, and reports whether to try once more after err.
func (r *retries) again(ctx context.Context, err error) bool {
	switch {
	case isRefusal(err):
		return false
	case isConflict(err):
		r.conflicts++
		// The random part keeps two requests from meeting again. Those that wait leave the entry to the others:
		// beside 300 of them that came back within 0.1 s, nobody's write arrived in time.
		most := 7
		if r.waits {
			most = 10
		}
		return waitloop.Sleep(ctx, rand.N(time.Millisecond<<min(r.conflicts, most)))
	case r.silent == 0:
		r.since = time.Now()
	}
	r.silent++
	patience := casstore.Patience
	if r.waits {
		patience = electionTime
	}
	pause := 50*time.Millisecond<<min(r.silent-1, 3) + rand.N(50*time.Millisecond)
	return time.Since(r.since) < patience && waitloop.Sleep(ctx, pause)
}

// firstPatience is how long the first attempt may take, and each other one twice as long. A request whose
// connection breaks has no answer, although the next connection is there at once. A busy server should have
// answered by then: what is sent anew makes it busier.
const firstPatience = 2 * time.Second

// attempt is one try, after so many that had no answer. written: the request that writes was sent.
func (t *tx) attempt(ctx context.Context, silent int, keys []string, decide func(*tx) error) (written bool, err error) {
	patience := firstPatience
	if silent > 0 {
		patience *= 2
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.load(ctx, keys); err != nil {
		return false, err
	}
	if err := decide(t); err != nil {
		return false, err
	}
	changes, err := t.changes()
	if err != nil || len(changes) == 0 {
		return false, err
	}
	return true, t.s.bucket.write(ctx, changes)
}

// load reads the entries of keys and the leader's time, at once.
func (t *tx) load(ctx context.Context, keys []string) error {
	t.sent = time.Now()
	t.entries = make([]*slot, len(keys))
	err := casstore.Parallel(len(keys)+1, func(i int) (err error) {
		if i == len(keys) {
			m, err := t.s.bucket.look(ctx)
			t.Now, t.replicas = m.now, m.replicas
			return err
		}
		t.entries[i], err = t.s.bucket.slot(ctx, keys[i])
		return err
	})
	for i, e := range t.entries {
		if err == nil {
			t.Keys = append(t.Keys, e.key(keys[i]))
		}
	}
	return err
}

func (b *bucket) slot(ctx context.Context, key string) (e *slot, err error) {
	e = new(slot)
	if e.value, e.number, err = b.read(ctx, keyNames.Of(key)); err == nil {
		e.entry, err = decode(key, e.value)
	}
	return e, err
}

// changes returns what the decision has changed.
func (t *tx) changes() (all []change, err error) {
	t.note()
	for i, k := range t.Keys {
		e := t.entries[i]
		e.take(k)
		value, err := json.Marshal(&e.entry)
		if err != nil {
			return nil, err
		}
		if e.number == 0 && k.IsFree() && e.empty() || bytes.Equal(value, e.value) {
			continue
		}
		all = append(all, change{name: keyNames.Of(k.Name), value: value, number: e.number, ttl: e.left(t.Now)})
	}
	return all, nil
}

// mostForced is how many forced releases an entry keeps, the newest: its value must stay below the server's
// max_payload. The owners of older ones learn of a loss without a reason.
const mostForced = 64

// note keeps why leases were taken by force, and drops what is too old to matter.
func (t *tx) note() {
	for i, k := range t.Keys {
		e := t.entries[i]
		var kept []forcedRelease
		for _, f := range e.Forced {
			if t.Now.Before(f.Until) {
				kept = append(kept, f)
			}
		}
		for _, f := range t.State.Forced {
			if f.Key == k.Name {
				kept = append(kept, forcedRelease{f.Owner, f.Token, f.Reason, t.Now.Add(keystate.ReasonKept)})
			}
		}
		e.Forced = kept[max(0, len(kept)-mostForced):]
		if e.Version != nil && !t.Now.Before(e.Version.Until) {
			e.Version = nil
		}
	}
}

// empty reports whether nothing is in the entry that matters after its leases have ended.
func (e *entry) empty() bool {
	return e.Record == nil && e.Version == nil && len(e.Forced) == 0
}

// tell wakes those that were let in, and tells the holder that is in somebody's way.
func (t *tx) tell() {
	for _, w := range t.Woken {
		t.s.inbox.send(w.Inbox, notice{Owner: w.Owner})
	}
	if w := t.Wanted; w != nil {
		t.s.inbox.send(w.Inbox, notice{Key: w.Key, Owner: w.Owner})
	}
}
