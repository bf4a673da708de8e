package core

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

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
	o := driver.Owner{Host: driver.CleanHost(host), PID: os.Getpid(), Instance: int(instances.Add(1)), Start: time.Now()}
	return ownerSource{prefix: o.String()} // which has no ID yet
}

func (s ownerSource) next() string {
	var id [16]byte    // 128 bits: driver.Owner.ID
	rand.Read(id[:])   // never fails: crypto/rand ends the program instead
	var room [192]byte // of the prefix nothing is longer than the host, which is cut
	buf := append(room[:0], s.prefix...)
	return string(hex.AppendEncode(buf, id[:]))
}
