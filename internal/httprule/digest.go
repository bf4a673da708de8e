package httprule

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// digest is the digest of several texts. It includes their lengths, so that two lists of texts
// with the same concatenation have different digests.
type digest struct {
	hash.Hash
	length [8]byte
	text   []byte // memory for the bytes of a string
}

func newDigest() *digest { return &digest{Hash: sha256.New()} }

// begin begins a text of that many bytes.
func (d *digest) begin(length int64) {
	binary.BigEndian.PutUint64(d.length[:], uint64(length))
	d.Write(d.length[:])
}

func (d *digest) add(text []byte) {
	d.begin(int64(len(text)))
	d.Write(text)
}

func (d *digest) addString(text string) {
	d.text = append(d.text[:0], text...)
	d.add(d.text)
}
