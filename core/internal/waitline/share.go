package waitline

import (
	"bytes"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Share gives a record to the callers in line for key that wait for the same execution
// ([Waiter.Once]), so that they need not ask one after the other. The store had the record at
// some time after asked. Callers that joined after asked have to ask: the record may have been
// forgotten by then.
func (ls *Lines) Share(key string, rec *driver.Record, asked time.Time) {
	s := ls.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		return
	}
	var own *driver.Record // a copy, so that callers that change their record do not change this one
	for p, behind := l.admission.next, (*place)(nil); p != nil; p = behind {
		behind = p.behind
		if !p.waiter.Once || p.joined.After(asked) {
			continue
		}
		if own == nil {
			own = cloneRecord(rec)
		}
		l.remove(p)
		p.waiter.Got.Record = own
		p.wake()
	}
	l.admitNext()
	s.tidy(key, l)
}

func cloneRecord(r *driver.Record) *driver.Record {
	c := *r
	c.Fingerprint, c.Result = bytes.Clone(r.Fingerprint), bytes.Clone(r.Result)
	return &c
}
