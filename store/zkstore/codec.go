package zkstore

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Nodes hold JSON, so that an operator can read them with zkCli. Fields that a version does not know
// are ignored.

// lockData is what the node of a lock holds.
type lockData struct {
	Last    uint64      `json:"last"` // the greatest token given or reserved
	Mode    driver.Mode `json:"mode"`
	Through uint64      `json:"through,omitempty"`
}

// memberData is what the node of a holder or a waiter holds.
type memberData struct {
	Owner    string      `json:"owner"`
	Mode     driver.Mode `json:"mode"`
	Permits  int         `json:"permits,omitempty"`
	Token    uint64      `json:"token,omitempty"`
	Reserved uint64      `json:"reserved,omitempty"` // the tokens after it that are its own; of a waiter, as many as it wants
	TTL      micros      `json:"ttl"`
	// Term is how long the lease lasts after the last change of its node.
	Term     micros `json:"term,omitempty"`
	Partial  bool   `json:"partial,omitempty"`  // a part of a set that waits for the rest
	Released bool   `json:"released,omitempty"` // by its owner; it stays for a while (R6)
	Inbox    string `json:"inbox,omitempty"`    // where to tell that the lease is wanted, if it may linger
	Rule     string `json:"rule,omitempty"`
	Trace    string `json:"trace,omitempty"`
}

// forcedData says why a lease was taken.
type forcedData struct {
	Token  uint64 `json:"token"`
	Reason string `json:"reason"`
}

// versionData is the version of AdvanceVersion.
type versionData struct {
	Version uint64 `json:"version"`
	Keep    micros `json:"keep"` // after the last change of the node
}

// recordHead is the first line of a record. Fingerprint, trace and result follow as they are.
type recordHead struct {
	Owner       string `json:"owner"`
	Keep        micros `json:"keep"` // after the last change of the node
	NotKept     bool   `json:"notKept,omitempty"`
	Fingerprint int    `json:"fingerprint,omitempty"`
	Trace       int    `json:"trace,omitempty"`
}

// errData says that a node does not hold what it should.
var errData = fmt.Errorf("%w: a node was not written by this store", driver.ErrForeign)

func decode(path string, data []byte, to any) error {
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%w: %.1000q: %w", errData, readable(path), err)
	}
	return nil
}

// readable is a path with the key as it is, which core.WithKeyFilter can find in an error.
func readable(path string) string {
	if plain, _ := lockNames.Key(path); plain != "" { // not a whole name, so it need not be valid as one
		return plain
	}
	return path
}

// encode cannot fail for the types of this file.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// encodeRecord is what the node of a record holds.
func encodeRecord(rec *keystate.Record, keep micros) []byte {
	h := recordHead{
		Owner: rec.Owner, Keep: keep, NotKept: rec.ResultNotKept,
		Fingerprint: len(rec.Fingerprint), Trace: len(rec.Trace),
	}
	b := append(encode(h), '\n')
	b = append(b, rec.Fingerprint...)
	b = append(b, rec.Trace...)
	return append(b, rec.Result...)
}

// decodeRecord reads the node of a record. keep is how long it stays after the last change of the node.
func decodeRecord(path string, data []byte) (rec *keystate.Record, keep micros, err error) {
	line, rest, ok := bytes.Cut(data, []byte{'\n'})
	var h recordHead
	if err := decode(path, line, &h); err != nil {
		return nil, 0, err
	}
	if !ok || h.Fingerprint < 0 || h.Trace < 0 || h.Fingerprint+h.Trace > len(rest) {
		return nil, 0, fmt.Errorf("%w: %.1000q", errData, readable(path))
	}
	fingerprint, rest := rest[:h.Fingerprint], rest[h.Fingerprint:]
	return &keystate.Record{Owner: h.Owner, Record: driver.Record{
		Fingerprint: fingerprint, ResultNotKept: h.NotKept, Trace: string(rest[:h.Trace]), Result: rest[h.Trace:],
	}}, h.Keep, nil
}
