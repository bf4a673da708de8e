package httprule

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
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

// fingerprint is a digest of what the request asks for: method, path, query and body. The host
// does not count: two gateways may deliver the same request.
func (r *request) fingerprint() ([]byte, error) {
	sum := newDigest()
	sum.addString(r.Method)
	sum.addString(r.URL.EscapedPath())
	sum.addString(r.URL.RawQuery)
	err := r.needBody()
	gone := errors.Is(err, ErrBodyGone) || err == nil && r.length() == 0 // without a Content-Length, only a form tells
	switch {
	case gone && r.MultipartForm != nil:
		return nil, ErrBodyGone
	case gone && len(r.PostForm) > 0:
		// An earlier middleware decoded the form, for example to look for a CSRF token. There
		// was nothing else in the body.
		sum.addString(r.PostForm.Encode())
	case err != nil:
		return nil, err
	default:
		if err := r.addBody(sum); err != nil {
			return nil, err
		}
	}
	return sum.Sum(nil), nil
}

// addBody adds the body as one text, without reading all of it into memory.
func (r *request) addBody(sum *digest) error {
	switch {
	case r.body == nil:
		sum.add(nil)
	case r.body.kept.file == nil:
		sum.add(r.body.kept.memory[r.start:])
	default:
		sum.begin(r.length())
		_, err := io.Copy(sum, &spoolReader{spool: &r.body.kept, next: r.start})
		return err
	}
	return nil
}
