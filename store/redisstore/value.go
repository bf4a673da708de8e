package redisstore

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// value is what a lock's key says, or what is written of a holder beside it.
type value struct {
	owner       string // the whole of a foreign client's value
	token       uint64 // 0: it is foreign
	since       int64  // ms of the server's clock; 0: not known
	rule, trace string
	quiet       bool // its process has no inbox, and perhaps can't send messages either
}

// quietMark stands before the rule in the notes of a process without inbox: others do
// not rely on being told when its lease ends. No escaped rule begins with it.
const quietMark = "!"

// quietly puts the mark into notes.
func quietly(notes string) string {
	ttl, rest, _ := strings.Cut(notes, ":")
	return ttl + ":" + quietMark + rest
}

// heldFor is how long the lease has lasted, at a time of the server's; 0: not known.
func (v value) heldFor(now int64) time.Duration {
	if v.since == 0 {
		return 0
	}
	return time.Duration(max(now-v.since, 0)) * time.Millisecond
}

// foreign says that it is the value of a client that is not keyturn.
func (v value) foreign() bool { return v.token == 0 && v.owner != "" && v.owner[0] != ':' }

// tokenDigits is how long a token is at least: it is never below the clock.
const tokenDigits = len("1763683200000000")

// parseValue reads "owner:token:since:ttl:rule|trace". Whatever does not look like that
// is a foreign client's, and its owner as it stands.
func parseValue(s string) value {
	fields := strings.Split(s, ":")
	foreign := value{owner: s}
	if len(fields) != 5 && len(fields) != 2 || fields[0] == "" || len(fields[1]) < tokenDigits {
		return foreign
	}
	v := value{owner: fields[0]}
	var err error
	if v.token, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return foreign
	}
	if len(fields) == 2 {
		return v
	}
	if v.since, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return foreign
	}
	if _, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
		return foreign
	}
	v.quiet = strings.HasPrefix(fields[4], quietMark)
	v.rule, v.trace = parseNotes(fields[3] + ":" + fields[4])
	return v
}

// notes writes what a request says of itself, "ttl:rule|trace". The scripts hand it
// on from the request to the line and to the lease; renew.lua reads the TTL. Rule
// and trace are escaped, so that no colon, space or bar of theirs is taken for one
// of ours.
func notes(ttl time.Duration, rule, trace string) string {
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

// modes writes the modes of claims for the scripts.
func modes(claims []driver.Claim) string {
	if len(claims) == 1 && claims[0].Mode == driver.ModeExclusive {
		return "x" // most are
	}
	var b strings.Builder
	for _, c := range claims {
		b.WriteString(letter(c.Mode))
		if c.Mode == driver.ModePermit {
			b.WriteString(strconv.Itoa(c.Permits))
		}
	}
	return b.String()
}

// letters is modes without the numbers of permits.
func letters(claims []driver.Claim) string {
	var b strings.Builder
	for _, c := range claims {
		b.WriteString(letter(c.Mode))
	}
	return b.String()
}

func letter(m driver.Mode) string {
	switch m {
	case driver.ModeShared:
		return "s"
	case driver.ModePermit:
		return "p"
	default:
		return "x"
	}
}

func modeOf(letter string) driver.Mode {
	switch letter {
	case "s":
		return driver.ModeShared
	case "p":
		return driver.ModePermit
	default:
		return driver.ModeExclusive
	}
}
