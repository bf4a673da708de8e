package httprule

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/keyturn/keyturn/internal/jsonpath"
)

// request is what a key is derived from. It belongs to one goroutine.
type request struct {
	Exchange
	limit int64       // of the body
	body  *replayBody // nil until it is asked for
	kept  replayBody  // the same, in place

	document *jsonpath.Document // of the body, once decoded
	query    url.Values         // once decoded
	fields   url.Values         // of the form, once decoded
}

// keepBody has everything that is read of the body from now on kept for the
// handler.
func (r *request) keepBody() {
	if r.body == nil {
		r.body = r.kept.of(r.Request(), r.limit)
	}
}

// rewind hands the body to the handler as if nobody had read it.
func (r *request) rewind() {
	if r.body != nil {
		r.body.rewind()
	}
}

// ErrBodyGone: something between the server and this middleware has read the
// body. That is a mistake in the order of middleware, not in the request.
var ErrBodyGone = errors.New("keyturn: the body was read before this middleware, which needs it: put this one first")

// BodyError is a body that broke off, or was refused by an earlier middleware.
type BodyError struct{ error }

func (e *BodyError) Unwrap() error { return e.error }

// content returns the whole body.
func (r *request) content() ([]byte, error) {
	if length := r.Request().ContentLength; length > r.limit {
		return nil, &http.MaxBytesError{Limit: r.limit} // not a byte of it
	}
	r.keepBody()
	if r.body == nil {
		return nil, nil
	}
	data, err := r.body.all()
	switch {
	case err != nil:
		return nil, &BodyError{err}
	case len(data) == 0 && r.Request().ContentLength > 0:
		return nil, ErrBodyGone
	}
	return data, nil
}

// json returns the body as a JSON document.
func (r *request) json() (jsonpath.Document, error) {
	if r.document != nil {
		return *r.document, nil
	}
	if !saysJSON(r.Request().Header.Get("Content-Type")) {
		return jsonpath.Document{}, ErrNotJSON
	}
	data, err := r.content()
	if err != nil {
		return jsonpath.Document{}, err
	}
	doc, err := jsonpath.Parse(data)
	if err != nil {
		return jsonpath.Document{}, err
	}
	r.document = &doc
	return doc, nil
}

// ErrNotJSON: the key is in a JSON body, and the Content-Type is another. A
// handler that binds by Content-Type, as Echo's c.Bind does, would read such a body
// differently, so that a body written for both readers locks one key and
// changes another.
var ErrNotJSON = errors.New("keyturn: the body is not JSON by its Content-Type")

func saysJSON(contentType string) bool {
	if contentType == "" { // nothing is said; the parser decides
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}

func (r *request) queryValues() url.Values {
	if r.query == nil {
		r.query = r.Request().URL.Query()
	}
	return r.query
}

// form returns what Request.FormValue looks at: the fields of the query and of the
// body. The request is left as it is.
func (r *request) form() (url.Values, error) {
	if r.fields != nil {
		return r.fields, nil
	}
	req := r.Request()
	multipart := strings.HasPrefix(req.Header.Get("Content-Type"), "multipart/form-data")
	if req.Form != nil && (!multipart || req.MultipartForm != nil) {
		return req.Form, nil // decoded already, by an earlier middleware
	}
	data, err := r.content()
	if err != nil {
		return nil, err
	}
	scratch := req.WithContext(req.Context())
	scratch.Form, scratch.PostForm = nil, nil
	scratch.Body = io.NopCloser(bytes.NewReader(data))
	if multipart {
		// The body is in memory already, so nothing is gained by temporary files.
		err = scratch.ParseMultipartForm(int64(len(data)))
	} else {
		err = scratch.ParseForm()
	}
	if err != nil {
		return nil, fmt.Errorf("not a form: %w", err)
	}
	r.fields = scratch.Form
	return r.fields, nil
}

// keyBy calls a key function. What it reads of the body is kept.
func (r *request) keyBy(key func(Exchange) string) (string, error) {
	r.keepBody()
	k := key(r.Exchange)
	if r.body != nil {
		if err := r.body.overLimit(); err != nil {
			return "", err
		}
	}
	return k, nil
}

// fingerprint is a digest of what the request asks for: method, path, query and
// body. The host is no part of it: two gateways may deliver the same request.
func (r *request) fingerprint() ([]byte, error) {
	req := r.Request()
	body, err := r.content()
	if errors.Is(err, ErrBodyGone) && len(req.PostForm) > 0 && req.MultipartForm == nil {
		// An earlier middleware decoded the form, such as one that looks for a
		// CSRF token. Nothing else was in the body.
		body, err = []byte(req.PostForm.Encode()), nil
	}
	if err != nil {
		return nil, err
	}
	return digest([]byte(req.Method), []byte(req.URL.EscapedPath()), []byte(req.URL.RawQuery), body), nil
}

// digest is one of several texts. Their lengths keep them from running into
// each other.
func digest(texts ...[]byte) []byte {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		sum.Write(text)
	}
	return sum.Sum(nil)
}
