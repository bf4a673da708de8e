package redisstore

import (
	"context"
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
	key, err := check(g.Owner, g.Claims, g.TTL)
	if err != nil {
		return err
	}
	if retention < time.Millisecond {
		return &core.OptionError{Option: "retention", Value: retention, Want: "1ms or more"}
	}
	r := s.request(completeScript, key, g.Owner, encode(g.Owner, rec), retention.Milliseconds())
	return s.settle(ctx, "complete", key, g, r)
}

// encode writes a record as "owner:length of the fingerprint:fingerprint
// result". The owner is in front for the script to compare; the rest may be any
// bytes, so they are counted, not delimited.
func encode(owner string, rec core.Record) string {
	var b strings.Builder
	b.Grow(len(owner) + len(rec.Fingerprint) + len(rec.Result) + len(":64:"))
	b.WriteString(owner)
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(len(rec.Fingerprint)))
	b.WriteByte(':')
	b.Write(rec.Fingerprint)
	b.Write(rec.Result)
	return b.String()
}

func decode(stored string) (*core.Record, error) {
	_, rest, _ := strings.Cut(stored, ":")
	length, body, ok := strings.Cut(rest, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(body) {
		return nil, fmt.Errorf("%w: a record whose fingerprint's length is %.20q, of %d bytes", ErrCorrupt, length, len(body))
	}
	return &core.Record{Fingerprint: []byte(body[:n]), Result: []byte(body[n:])}, nil
}
