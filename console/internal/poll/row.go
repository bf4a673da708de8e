package poll

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
	"github.com/keyturn/keyturn/internal/who"
)

// Row is what was last seen of a key. It never changes. A console may have to keep 100 000 of them, most
// of which are held by one lease and wanted by nobody: such a row takes some 200 bytes.
type Row struct {
	Key string
	at  int64 // when it was seen, in Unix milliseconds, like all moments here

	// full has the keys with several holders, with waiters or records, and foreign ones. The other
	// fields mean nothing then.
	full *driver.LockInfo

	process unique.Handle[string] // the owner up to its last slash
	id      [16]byte              // what follows there
	rule    unique.Handle[string]
	trace   [16]byte // of the traceparent, if there is one
	span    [8]byte
	flags   byte
	traced  bool
	lingers bool
	mode    driver.Mode
	token   uint64
	heldFor time.Duration
	left    time.Duration
}

// NewRow keeps what was seen at a moment.
func NewRow(at time.Time, info driver.LockInfo) *Row {
	r := &Row{Key: strings.Clone(info.Key), at: at.UnixMilli()}
	if !r.pack(info) {
		r.full = &info
	}
	return r
}

// pack reports whether the compact fields can hold all of info.
func (r *Row) pack(info driver.LockInfo) bool {
	if len(info.Holders) != 1 || len(info.Waiters) > 0 || info.Record != nil {
		return false
	}
	h := info.Holders[0]
	cut := strings.LastIndexByte(h.Owner, '/')
	if who.Of(h.Owner).Foreign || h.Trace != "" && !r.packTrace(h.Trace) {
		return false
	}
	if _, err := hex.Decode(r.id[:], []byte(h.Owner[cut+1:])); err != nil || h.Owner[cut+1:] != hex.EncodeToString(r.id[:]) {
		return false
	}
	r.process, r.rule = unique.Make(h.Owner[:cut]), unique.Make(h.Rule)
	r.mode, r.token, r.heldFor, r.left, r.lingers = info.Mode, h.Token, h.HeldFor, h.Left, h.Lingers
	return true
}

func (r *Row) packTrace(text string) bool {
	id := lockjson.TraceOf(text).TraceID
	if id == "" || len(text) != 55 || text[:3] != "00-" {
		return false
	}
	var flags [1]byte
	_, err1 := hex.Decode(r.trace[:], []byte(id))
	_, err2 := hex.Decode(r.span[:], []byte(text[36:52]))
	_, err3 := hex.Decode(flags[:], []byte(text[53:]))
	r.flags, r.traced = flags[0], true
	return err1 == nil && err2 == nil && err3 == nil && r.traceText() == text
}

func (r *Row) traceText() string {
	return "00-" + hex.EncodeToString(r.trace[:]) + "-" + hex.EncodeToString(r.span[:]) + "-" + hex.EncodeToString([]byte{r.flags})
}

// At returns when the key was seen.
func (r *Row) At() time.Time { return time.UnixMilli(r.at) }

// Info returns what was seen. The durations in it end at [Row.At]. The caller must not change it.
func (r *Row) Info() driver.LockInfo {
	if r.full != nil {
		return *r.full
	}
	h := driver.Holder{
		Owner: r.process.Value() + "/" + hex.EncodeToString(r.id[:]), Token: r.token, Rule: r.rule.Value(),
		HeldFor: r.heldFor, Left: r.left, Lingers: r.lingers,
	}
	if r.traced {
		h.Trace = r.traceText()
	}
	return driver.LockInfo{Key: r.Key, Mode: r.mode, Holders: []driver.Holder{h}}
}

// Waiters returns how many requests wait, and how long the first of them has waited.
func (r *Row) Waiters() (n int, longest time.Duration) {
	if r.full == nil {
		return 0, 0
	}
	for _, w := range r.full.Waiters {
		longest = max(longest, w.Waited)
	}
	return len(r.full.Waiters), longest
}

// HeldFor returns for how long the first of its holders had the key.
func (r *Row) HeldFor() time.Duration {
	if r.full == nil {
		return r.heldFor
	}
	var longest time.Duration
	for _, h := range r.full.Holders {
		longest = max(longest, h.HeldFor)
	}
	return longest
}

// holder returns the owner of the first holder and its token.
func (r *Row) holder() (owner string, token uint64) {
	if info := r.Info(); len(info.Holders) > 0 {
		return info.Holders[0].Owner, info.Holders[0].Token
	}
	return "", 0
}

// settle makes the durations of info go on where those of an older row end. Each sample takes another
// time on its way, so a lease would seem to begin at a slightly different moment each time.
func settle(old *Row, at time.Time, info driver.LockInfo) {
	if old == nil {
		return
	}
	const jitter = time.Second
	passed, before := at.Sub(old.At()), old.Info()
	fit := func(duration *time.Duration, was time.Duration) {
		if d := *duration - was - passed; d > -jitter && d < jitter {
			*duration = was + passed
		}
	}
	for i := range info.Holders {
		h := &info.Holders[i]
		for _, b := range before.Holders {
			if b.Owner == h.Owner && b.Token == h.Token && h.HeldFor > 0 {
				fit(&h.HeldFor, b.HeldFor)
			}
			if b.Owner == h.Owner && b.Token == h.Token {
				if d := h.Left - (b.Left - passed); d > -jitter/2 && d < jitter/2 {
					h.Left = b.Left - passed
				}
			}
		}
	}
	if len(before.Waiters) == 0 {
		return
	}
	waited := make(map[string]time.Duration, len(before.Waiters))
	for _, b := range before.Waiters {
		waited[b.Owner] = b.Waited
	}
	for i := range info.Waiters {
		if was, found := waited[info.Waiters[i].Owner]; found {
			fit(&info.Waiters[i].Waited, was)
		}
	}
}

// HasRule reports whether rule is that of a holder or a waiter.
func (r *Row) HasRule(rule string) bool {
	if r.full == nil {
		return r.rule.Value() == rule
	}
	return slices.ContainsFunc(r.full.Holders, func(h driver.Holder) bool { return h.Rule == rule }) ||
		slices.ContainsFunc(r.full.Waiters, func(w driver.Waiter) bool { return w.Rule == rule })
}
