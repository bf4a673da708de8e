package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Begin implements [core.Ledger].
func (s *Store) Begin(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
	return s.acquire(ctx, req, true)
}

// Complete implements [core.Ledger]. If the server has no memory left for the
// record, nothing is stored, the lease stays, and the error matches
// ErrOutOfMemory.
func (s *Store) Complete(ctx context.Context, g core.Grant, rec core.Record, retention time.Duration) error {
	if err := errors.Join(check(g.Owner, g.Claims, g.TTL), checkOnce(g.Claims)); err != nil {
		return err
	}
	if retention < time.Millisecond {
		return &core.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	r := s.request(new(request), completeScript, g.Owner, g.Claims, g.Token, encode(g.Owner, rec), retention.Milliseconds())
	if !s.await(ctx, nil, r.alone()) {
		return &core.UnavailableError{Op: "complete", Err: silence(ctx)}
	}
	return r.verdict("complete", g.Claims, g)
}

// encode writes a record as "owner:n+m:", m bytes of trace, n of fingerprint, and
// the result. The owner is in front for the script to compare; the rest may be
// any bytes, so they are counted, not delimited. Without a trace there is no
// "+m", as there was none in earlier versions.
func encode(owner string, rec core.Record) string {
	var b strings.Builder
	b.Grow(len(owner) + len(rec.Trace) + len(rec.Fingerprint) + len(rec.Result) + len(":64+256:"))
	b.WriteString(owner)
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(len(rec.Fingerprint)))
	if rec.Trace != "" {
		b.WriteByte('+')
		b.WriteString(strconv.Itoa(len(rec.Trace)))
	}
	b.WriteByte(':')
	b.WriteString(rec.Trace)
	b.Write(rec.Fingerprint)
	b.Write(rec.Result)
	return b.String()
}

// header is what stands in front of a record: whose it is, and how long the
// header itself, the trace and the fingerprint are.
type header struct {
	owner                      string
	length, trace, fingerprint int
}

func parseHeader(stored string) (header, bool) {
	owner, rest, _ := strings.Cut(stored, ":")
	lengths, body, ok := strings.Cut(rest, ":")
	first, second, both := strings.Cut(lengths, "+")
	if !both {
		second = "0"
	}
	n, err := strconv.Atoi(first)
	m, err2 := strconv.Atoi(second)
	ok = ok && err == nil && err2 == nil && n >= 0 && m >= 0
	return header{owner: owner, length: len(stored) - len(body), trace: m, fingerprint: n}, ok
}

func decode(stored string) (*core.Record, error) {
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
	return &core.Record{
		Fingerprint: []byte(body[:h.fingerprint]), Result: []byte(body[h.fingerprint:]), Trace: trace,
	}, nil
}
