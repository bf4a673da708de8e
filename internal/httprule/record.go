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

// response is what a record has of a response.
type response struct {
	status  int
	header  http.Header
	body    []byte
	trailer http.Header
}

// encode writes a response in the format of HTTP/1.1 (RFC 9112), so that people and other
// programs can read a record. The body goes to the end, or is in chunks if a trailer follows.
func encode(r response) []byte {
	var b bytes.Buffer
	if len(r.trailer) > 0 {
		chunked := http.Response{
			StatusCode: r.status, ProtoMajor: 1, ProtoMinor: 1, Header: r.header,
			TransferEncoding: []string{"chunked"}, Body: io.NopCloser(bytes.NewReader(r.body)), Trailer: r.trailer,
		}
		_ = chunked.Write(&b) // a buffer does not fail
		return b.Bytes()
	}
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", r.status, http.StatusText(r.status))
	_ = r.header.Write(&b)
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes()
}

// decode is the inverse of encode. An error means that the record is not one of a response:
// another use of the key stored it, without comparing content.
func decode(rec []byte) (response, error) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(rec)), nil)
	if err != nil {
		return response{}, fmt.Errorf("keyturn: the record is not a response: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, body, res.Trailer}, err
}

// trailers returns the trailers of a response: those that its header announced, and those that the
// handler marked with a prefix. net/http does the same.
func trailers(header, after http.Header) http.Header {
	var all http.Header
	add := func(name string, values []string) {
		if all == nil {
			all = make(http.Header)
		}
		all[http.CanonicalHeaderKey(name)] = values
	}
	for _, names := range header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values := after[name]; len(values) > 0 {
				add(name, values)
			}
		}
	}
	for name, values := range after {
		if name, marked := strings.CutPrefix(name, http.TrailerPrefix); marked {
			add(name, values)
		}
	}
	return all
}

// pick returns the headers with these names. It leaves out values that no client can read,
// because net/http could not read them back from the record.
func pick(header http.Header, names []string) http.Header {
	if len(header) == 0 {
		return nil
	}
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
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition", "Content-Range",
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
