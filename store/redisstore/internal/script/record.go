package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// A record is the owner (see recordOwner), "n+m:" or "n+m!:", m bytes of trace, n bytes of
// fingerprint, and the result. The "!" says that the result was not kept. The owner is in
// front, so that the script can compare it. The other parts may be any bytes: they have
// lengths, not delimiters. Without a trace there is no "+m".

// head writes the beginning of a record, up to the colon in front of the bytes.
func head(owner string, rec driver.Record) string {
	b := recordOwner(make([]byte, 0, len(owner)+len("1:64+256!")), owner)
	b = strconv.AppendInt(b, int64(len(rec.Fingerprint)), 10)
	if rec.Trace != "" {
		b = strconv.AppendInt(append(b, '+'), int64(len(rec.Trace)), 10)
	}
	if rec.ResultNotKept {
		b = append(b, '!')
	}
	return string(b)
}

// about returns the parts of a record besides the owner and the result.
func about(rec driver.Record) string { return rec.Trace + string(rec.Fingerprint) }

// header is the beginning of a record: its owner, and the lengths of the header itself, of the
// trace and of the fingerprint.
type header struct {
	owner                      string
	length, trace, fingerprint int
	notKept                    bool
}

func parseHeader(stored string) (header, bool) {
	owner, rest, known := cutOwner(stored)
	lengths, body, ok := strings.Cut(rest, ":")
	lengths, notKept := strings.CutSuffix(lengths, "!")
	first, second, both := strings.Cut(lengths, "+")
	if !both {
		second = "0"
	}
	n, err := strconv.Atoi(first)
	m, err2 := strconv.Atoi(second)
	ok = ok && known && err == nil && err2 == nil && n >= 0 && m >= 0
	return header{owner: owner, length: len(stored) - len(body), trace: m, fingerprint: n, notKept: notKept}, ok
}

func decodeRecord(stored string) (*driver.Record, error) {
	h, ok := parseHeader(stored)
	if !ok {
		return nil, fmt.Errorf("%w: a record that begins with %.40q", ErrCorrupt, stored)
	}
	body := stored[h.length:]
	if h.trace > len(body) || h.fingerprint > len(body)-h.trace {
		return nil, fmt.Errorf("%w: a record of %d bytes, of which %d are its trace and %d its fingerprint",
			ErrCorrupt, len(body), h.trace, h.fingerprint)
	}
	trace, body := body[:h.trace], body[h.trace:]
	return &driver.Record{
		Fingerprint: []byte(body[:h.fingerprint]), Result: []byte(body[h.fingerprint:]), ResultNotKept: h.notKept, Trace: trace,
	}, nil
}
