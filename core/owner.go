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

// ownerSource makes the owners of one engine. It is their traceable part; the random part is another
// one for each acquisition.
type ownerSource string

func newOwnerSource() ownerSource {
	host, err := os.Hostname()
	if err != nil {
		host = "" // owners are still unique, only harder to trace
	}
	o := driver.Owner{Host: driver.CleanHost(host), PID: os.Getpid(), Instance: int(instances.Add(1)), Start: time.Now()}
	return ownerSource(o.String()) // o has no ID yet
}

func (s ownerSource) next() string {
	var id [16]byte    // 128 bits: driver.Owner.ID
	rand.Read(id[:])   // cannot fail: crypto/rand ends the program instead
	var room [192]byte // enough: the prefix cuts the host, its only long part
	buf := append(room[:0], s...)
	return string(hex.AppendEncode(buf, id[:]))
}
