package core

import (
	"bytes"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// share gives a record that the store had at some time after asked to the twins
// of its execution who wait in line, so that they need not ask for it one after
// the other. Who came after asked has to: the record may have been forgotten by
// then.
func (ls *lines) share(key string, rec *driver.Record, asked time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	if l == nil {
		return
	}
	var own *driver.Record // what callers do to theirs does not reach it
	for t, behind := l.next, (*ticket)(nil); t != nil; t = behind {
		behind = t.behind
		if !t.once || t.joined.After(asked) {
			continue
		}
		if own == nil {
			own = cloneRecord(rec)
		}
		ls.remove(t)
		t.given.rec = own
		t.wake()
	}
	l.step()
	ls.tidy(key, l)
}

func cloneRecord(r *driver.Record) *driver.Record {
	c := *r
	c.Fingerprint, c.Result = bytes.Clone(r.Fingerprint), bytes.Clone(r.Result)
	return &c
}
