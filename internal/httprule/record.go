package httprule

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// ReplayedHeader is set to "true" on a response that comes from the record of an earlier
// request.
const ReplayedHeader = "Idempotent-Replayed"

// encode writes a response in the format of HTTP/1.1 (RFC 9112), so that people and other
// programs can read a record. The body goes to the end.
func encode(status int, header http.Header, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, http.StatusText(status))
	_ = header.Write(&b) // a buffer does not fail
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// decode is the inverse of encode. An error means that the record is not one of a response:
// another use of the key stored it, without comparing content.
func decode(rec []byte) (status int, header http.Header, body []byte, err error) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(rec)), nil)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("keyturn: the record is not a response: %w", err)
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, res.Header, body, err
}

// pick returns the headers with these names. It leaves out values that no client can read,
// because net/http could not read them back from the record.
func pick(header http.Header, names []string) http.Header {
	picked := make(http.Header, len(names))
	for _, name := range names {
		for _, value := range header[name] {
			if !strings.ContainsFunc(value, unicode.IsControl) {
				picked[name] = append(picked[name], value)
			}
		}
	}
	return picked
}

// alwaysStored are headers without which a client cannot read a stored body, or cannot go on.
var alwaysStored = []string{
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition",
	"Location", "Link", "Etag", "Last-Modified",
}

// notStored are headers of one connection or one moment. net/http writes them.
var notStored = []string{
	"Connection", "Content-Length", "Date", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// storedHeaders adds names to alwaysStored, in canonical form.
func storedHeaders(names []string) ([]string, error) {
	var errs []error
	all := slices.Clone(alwaysStored)
	for _, name := range names {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case name == "" || strings.ContainsFunc(name, notToken):
			errs = append(errs, fmt.Errorf("headers: %q is not the name of a header", name))
		case slices.Contains(notStored, canonical):
			errs = append(errs, fmt.Errorf("headers: %s belongs to a connection, not to a response", canonical))
		case !slices.Contains(all, canonical):
			all = append(all, canonical)
		}
	}
	return all, errors.Join(errs...)
}

// notToken reports whether r cannot be part of a header's name (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
