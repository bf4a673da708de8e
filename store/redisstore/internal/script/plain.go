package script

import (
	"strconv"

	"github.com/keyturn/keyturn/core/driver"
)

// plainKind is what a plain call does. Batches have their calls in this order.
type plainKind int

const (
	notPlain plainKind = iota
	ends
	completes
	acquires
	onces // an acquire that a record will do for as well
	plainKinds
)

// plainCall is a call about one exclusive claim, in the few words that group.lua needs. What a
// call costs the server is mostly the number of its words. Most words of another call are the
// names of all keys that a lock may ever have.
type plainCall struct {
	kind   plainKind
	key    string
	owner  string
	asks   Acquire // to begin, without its claims
	token  uint64  // to end; 0: any
	record plainRecord
}

// plainRecord is what a call stores that completes an execution.
type plainRecord struct {
	head, about, result string // see record.go
	retention           int64  // in ms
}

// isPlain reports whether a plain call may be about claims.
func isPlain(claims []driver.Claim) bool {
	return len(claims) == 1 && claims[0].Mode == driver.ModeExclusive
}

// size returns about how many bytes the call takes.
func (p *plainCall) size() int {
	if p.kind == completes { // it goes in words of its own
		return 0
	}
	return 128 + len(p.key) + len(p.owner) + len(p.asks.Notes) + len(p.asks.Inbox)
}

// end writes a release as group.lua reads it: the lock, and the beginning of its value if it is
// the owner's.
func (p *plainCall) end(b []byte, n Names) []byte {
	b = append(append(append(b, n.Prefix...), p.key...), '\n')
	return append(p.beginning(b), '\n')
}

// beginning writes the beginning of the lock's value if it is the owner's.
func (p *plainCall) beginning(b []byte) []byte {
	b = append(append(b, p.owner...), ':')
	if p.token != 0 {
		b = append(strconv.AppendUint(b, p.token, 10), ':')
	}
	return b
}

// complete appends the words of a call that completes an execution, as group.lua reads them.
func (p *plainCall) complete(words []any, n Names) []any {
	r := &p.record
	return append(words, n.Lock(p.key), p.beginning(nil), r.retention, r.head, r.about, r.result)
}

// begin writes an acquire as group.lua reads it.
func (p *plainCall) begin(b []byte, n Names) []byte {
	b = append(append(append(b, n.Prefix...), p.key...), '\n')
	b = append(append(b, p.owner...), '\n')
	b = append(strconv.AppendInt(b, p.asks.TTL.Milliseconds(), 10), '\n')
	b = append(append(b, p.asks.Notes...), '\n')
	return append(p.asks.words(b), '\n')
}

// words writes the part of q that matters when the key is not free.
func (q *Acquire) words(b []byte) []byte {
	for _, n := range [...]int64{
		flag(q.Wait), q.WaiterLease.Milliseconds(), q.ClaimTime.Milliseconds(), q.Waited.Milliseconds(), int64(q.Stuck), int64(q.Question), flag(q.Part),
	} {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, ' ')
	}
	return append(b, q.Inbox...)
}

// flag writes a condition as the scripts read it.
func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
