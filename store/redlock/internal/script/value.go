package script

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Value is the value of a lock.
type Value struct {
	Owner       string // a foreign client's value, as shown returns it
	Token       uint64 // 0: a foreign client's value
	Since       int64  // ms of the node's clock; 0: not known
	Rule, Trace string
}

// ParseValue reads "owner:token:reserved:since:ttl:rule|trace:round". It takes any other value for
// that of a foreign client, and returns the whole of it as the owner.
func ParseValue(s string) Value {
	foreign := Value{Owner: s}
	fields := strings.Split(s, ":")
	if len(fields) != 7 || fields[0] == "" {
		return foreign
	}
	token, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || token == 0 {
		return foreign
	}
	since, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil {
		return foreign
	}
	rule, trace, _ := strings.Cut(fields[5], "|")
	return Value{Owner: fields[0], Token: token, Since: since, Rule: unescape(rule), Trace: unescape(trace)}
}

// HeldFor returns how long the lease had lasted at now, a time of the node's clock in µs; 0: not
// known.
func (v Value) HeldFor(now int64) time.Duration {
	if v.Since == 0 {
		return 0
	}
	return time.Duration(max(now/1000-v.Since, 0)) * time.Millisecond
}

// Notes returns what a request says about itself, "ttl:rule|trace". Rule and trace are escaped, so
// that a colon or bar in them is not taken for a delimiter.
func Notes(ttl time.Duration, rule, trace string) string {
	return strconv.FormatInt(ttl.Milliseconds(), 10) + ":" + url.QueryEscape(rule) + "|" + url.QueryEscape(trace)
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
