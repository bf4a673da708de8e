package script

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Value is what a lock's key says, or what is written of a holder beside it.
type Value struct {
	Owner       string // the whole of a foreign client's value
	Token       uint64 // 0: it is foreign
	Since       int64  // ms of the server's clock; 0: not known
	Rule, Trace string
	Quiet       bool // its process has no inbox, and perhaps can't send messages either
}

// quietMark stands before the rule in the notes of a process without inbox: others do
// not rely on being told when its lease ends. No escaped rule begins with it.
const quietMark = "!"

// Quietly puts the mark into notes.
func Quietly(notes string) string {
	ttl, rest, _ := strings.Cut(notes, ":")
	return ttl + ":" + quietMark + rest
}

// HeldFor is how long the lease has lasted, at a time of the server's; 0: not known.
func (v Value) HeldFor(now int64) time.Duration {
	if v.Since == 0 {
		return 0
	}
	return time.Duration(max(now-v.Since, 0)) * time.Millisecond
}

// Foreign says that it is the value of a client that is not keyturn.
func (v Value) Foreign() bool { return v.Token == 0 && v.Owner != "" && v.Owner[0] != ':' }

// tokenDigits is how long a token is at least: it is never below the clock.
const tokenDigits = len("1763683200000000")

// ParseValue reads "owner:token:reserved:since:ttl:rule|trace". Whatever does not look like that
// is a foreign client's, and its owner as it stands.
func ParseValue(s string) Value {
	fields := strings.Split(s, ":")
	foreign := Value{Owner: s}
	if len(fields) != 6 && len(fields) != 2 || fields[0] == "" || len(fields[1]) < tokenDigits {
		return foreign
	}
	v := Value{Owner: fields[0]}
	var reserved, ttl int64 // which only scripts read
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
	v.Rule, v.Trace = parseNotes(fields[4] + ":" + fields[5])
	return v
}

// Notes writes what a request says of itself, "ttl:rule|trace". The scripts hand it
// on from the request to the line and to the lease; renew.lua reads the TTL. Rule
// and trace are escaped, so that no colon, space or bar of theirs is taken for one
// of ours.
func Notes(ttl time.Duration, rule, trace string) string {
	b := append(strconv.AppendInt(make([]byte, 0, 24), ttl.Milliseconds(), 10), ':')
	if rule == "" && trace == "" {
		return string(b)
	}
	return string(b) + url.QueryEscape(rule) + "|" + url.QueryEscape(trace)
}

// parseNotes reads what is for people in them.
func parseNotes(s string) (rule, trace string) {
	_, s, _ = strings.Cut(s, ":")
	rule, trace, _ = strings.Cut(strings.TrimPrefix(s, quietMark), "|")
	return unescape(rule), unescape(trace)
}

// unescape returns what it can't read as it is: notes are for people.
func unescape(s string) string {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		return s
	}
	return plain
}
