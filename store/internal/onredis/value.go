package onredis

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Value is the value of a lock's key, or of an entry about one of its holders.
type Value struct {
	Owner       string // a foreign client's value, as shown returns it
	Token       uint64 // 0: a foreign client's value
	Since       int64  // ms of the server's clock; 0: not known
	Rule, Trace string
	Quiet       bool // its process has no inbox, and perhaps can't send messages either
	Lingers     bool // its notes name the inbox that has to know when it is wanted
}

// quietMark stands in front of the rule in the notes of a process without an inbox. Other
// processes then do not rely on a message when its lease ends. No escaped rule begins with it.
const quietMark = "!"

// Quietly puts quietMark into notes.
func Quietly(notes string) string {
	ttl, rest, _ := strings.Cut(notes, ":")
	return ttl + ":" + quietMark + rest
}

// Lingering puts the inbox of a lease that may linger into notes, behind the trace. A request that
// finds the lease in its way sends a message there: want in line.lua.
func Lingering(notes, inbox string) string {
	if strings.HasSuffix(notes, ":") { // neither rule nor trace
		notes += "|"
	}
	return notes + "|" + inbox
}

// HeldFor returns how long the lease had lasted at now, a time of the server's clock; 0: not
// known.
func (v Value) HeldFor(now int64) time.Duration {
	if v.Since <= 0 {
		return 0
	}
	return time.Duration(max(now-v.Since, 0)) * time.Millisecond
}

// Holder returns what an operator sees of the holder at now, whose lease ends after left.
func (v Value) Holder(now int64, left time.Duration) driver.Holder {
	return driver.Holder{Owner: v.Owner, Token: v.Token, Rule: v.Rule, Trace: v.Trace, HeldFor: v.HeldFor(now), Left: left}
}

// Foreign reports whether a client that is not keyturn wrote the value.
func (v Value) Foreign() bool { return v.Token == 0 && v.Owner != "" && v.Owner[0] != ':' }

// tokenDigits is the least length of a token: a token is never below the clock.
const tokenDigits = len("1763683200000000")

// ParseValue reads "owner:token:reserved:since:ttl:rule|trace|inbox". It takes any other value for
// that of a foreign client, and returns the whole of it as the owner.
func ParseValue(s string) Value {
	const lastField = 6 // the inbox may contain a colon
	fields := strings.SplitN(s, ":", lastField)
	foreign := Value{Owner: s}
	if len(fields) != lastField && len(fields) != 2 || fields[0] == "" || len(fields[1]) < tokenDigits {
		return foreign
	}
	v := Value{Owner: fields[0]}
	var reserved, ttl int64 // only scripts read these
	var err error
	if v.Token, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return foreign
	}
	if len(fields) == 2 {
		return v
	}
	for i, number := range []*int64{&reserved, &v.Since, &ttl} {
		if *number, err = strconv.ParseInt(fields[2+i], 10, 64); err != nil {
			return foreign
		}
	}
	v.Quiet = strings.HasPrefix(fields[5], quietMark)
	v.Rule, v.Trace, v.Lingers = ParseNotes(fields[4] + ":" + fields[5])
	return v
}

// Notes returns what a request says about itself, "ttl:rule|trace". The scripts copy it from
// the request to the line and to the lease; renew.lua reads the TTL. Rule and trace are
// escaped, so that a colon, space or bar in them is not taken for a delimiter.
func Notes(ttl time.Duration, rule, trace string) string {
	b := append(strconv.AppendInt(make([]byte, 0, 24), ttl.Milliseconds(), 10), ':')
	if rule == "" && trace == "" {
		return string(b)
	}
	return string(b) + url.QueryEscape(rule) + "|" + url.QueryEscape(trace)
}

// ParseNotes reads the part of the notes that is for people, and whether they name an inbox.
func ParseNotes(s string) (rule, trace string, lingers bool) {
	_, s, _ = strings.Cut(s, ":")
	rule, trace, _ = strings.Cut(strings.TrimPrefix(s, quietMark), "|")
	trace, _, lingers = strings.Cut(trace, "|")
	return unescape(rule), unescape(trace), lingers
}

// unescape reads a rule or trace. It returns s as it is if it can't read it: notes are for people.
// No request of ours has more than MaxNoteBytes.
func unescape(s string) string {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		plain = s
	}
	return plain[:min(len(plain), driver.MaxNoteBytes)]
}
