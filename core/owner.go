package core

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Owner is who holds a lease, as far as the stored value tells. Every
// acquisition has an owner of its own: two goroutines of one process are as
// much strangers to each other as two machines are.
type Owner struct {
	Host     string
	PID      int
	Instance int       // 1 for the first engine of that process, 2 for the second
	Start    time.Time // when that engine was made, to the second
	ID       string    // 128 random bits in hex
}

// String returns the form that is stored: host/pid/instance/start/id, of
// letters, digits and "._-/" only. It never contains a colon, so that a store
// may put one behind it and still compare owners exactly.
func (o Owner) String() string { return o.prefix() + o.ID }

func (o Owner) prefix() string {
	return fmt.Sprintf("%s/%d/%d/%s/", o.Host, o.PID, o.Instance, strconv.FormatInt(o.Start.Unix(), 36))
}

// ParseOwner reads what [Owner.String] wrote. Values of foreign clients give
// an error.
func ParseOwner(s string) (Owner, error) {
	bad := fmt.Errorf("keyturn: %q is not an owner of keyturn's", s)
	parts := strings.Split(s, "/")
	if len(parts) != 5 || parts[0] == "" || len(parts[4]) != 2*ownerIDBytes {
		return Owner{}, bad
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return Owner{}, bad
	}
	instance, err := strconv.Atoi(parts[2])
	if err != nil {
		return Owner{}, bad
	}
	start, err := strconv.ParseInt(parts[3], 36, 64)
	if err != nil {
		return Owner{}, bad
	}
	if _, err := hex.DecodeString(parts[4]); err != nil {
		return Owner{}, bad
	}
	return Owner{Host: parts[0], PID: pid, Instance: instance, Start: time.Unix(start, 0), ID: parts[4]}, nil
}

const ownerIDBytes = 16

// instances counts the engines of this process.
var instances atomic.Int64

// ownerSource makes the owners of one engine: the traceable part once, the
// random part per acquisition.
type ownerSource struct {
	prefix string
}

func newOwnerSource() ownerSource {
	host, err := os.Hostname()
	if err != nil {
		host = "" // traceability suffers, uniqueness does not
	}
	o := Owner{Host: cleanHost(host), PID: os.Getpid(), Instance: int(instances.Add(1)), Start: time.Now()}
	return ownerSource{prefix: o.prefix()}
}

func (s ownerSource) next() string {
	var id [ownerIDBytes]byte
	rand.Read(id[:])   // never fails: crypto/rand ends the program instead
	var room [192]byte // of the prefix nothing is longer than the host, which is cut
	buf := append(room[:0], s.prefix...)
	return string(hex.AppendEncode(buf, id[:]))
}

// cleanHost keeps a host name from breaking the format of the owner: what is
// not a letter, digit, dot, dash or underscore becomes a dash.
func cleanHost(host string) string {
	const most = 64
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		default:
			return '-'
		}
	}, host)
	if clean == "" {
		return "unknown"
	}
	return clean[:min(len(clean), most)]
}
