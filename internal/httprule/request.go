package httprule

import (
	"bytes"
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
	limit int64         // of the body
	body  *spooledBody  // nil until it is asked for, or if there is none
	start int64         // where in body this rule found it
	of    *http.Request // that has own for its body; nil: none
	own   spooledBody

	document *jsonpath.Document // of the body, once decoded
	query    url.Values         // once decoded
	fields   url.Values         // of the form, once decoded
}

// keepBody has everything that is read of the body from now on kept for the
// handler. A rule inside of another one goes on with what that one has kept.
func (r *request) keepBody() {
	req := r.Request()
	if r.body != nil || req.Body == nil || req.Body == http.NoBody {
		return
	}
	if outer, ok := req.Body.(*spooledBody); ok {
		if start, complete := outer.keepAgain(); complete {
			r.body, r.start = outer, start
			return
		}
	}
	r.own.begin(req.Body, r.limit)
	r.body, r.of = &r.own, req
	req.Body = r.body
}

// fill reads the whole body, so that nobody waits for the client later.
func (r *request) fill() error {
	if length := r.Request().ContentLength; length > r.limit {
		return &http.MaxBytesError{Limit: r.limit} // not a byte of it
	}
	r.keepBody()
	if r.body == nil {
		return nil
	}
	if err := r.body.fill(); err != nil {
		if isSpoolError(err) {
			return err
		}
		return &BodyError{err}
	}
	if r.length() > r.limit { // it was another rule's, with another limit
		return &http.MaxBytesError{Limit: r.limit}
	}
	return nil
}

// length is that of the body, once it is filled.
func (r *request) length() int64 {
	if r.body == nil {
		return 0
	}
	return r.body.kept.size - r.start
}

// rewind hands the body to the handler as if nobody had read it.
func (r *request) rewind() {
	if r.body != nil {
		r.body.rewind(r.start)
	}
}

// end frees what was kept of the body.
func (r *request) end() {
	if r.of != nil {
		r.own.discard()
		r.of.Body = r.own.source
		r.of = nil
	}
}

// ErrBodyGone: something between the server and this middleware has read the
// body. That is a mistake in the order of middleware, not in the request.
var ErrBodyGone = errors.New("keyturn: the body was read before this middleware, which needs it: put this one first")

// BodyError is a body that broke off, or was refused by an earlier middleware.
type BodyError struct{ error }

func (e *BodyError) Unwrap() error { return e.error }

// content returns the whole body. What it returns is valid until end.
func (r *request) content() ([]byte, error) {
	if err := r.needBody(); err != nil || r.body == nil {
		return nil, err
	}
	data, err := r.body.kept.bytes()
	if err != nil {
		return nil, err
	}
	return data[r.start:], nil
}

// needBody is fill for a rule that can't do without the body.
func (r *request) needBody() error {
	if err := r.fill(); err != nil {
		return err
	}
	if r.body != nil && r.length() == 0 && r.Request().ContentLength > 0 {
		return ErrBodyGone
	}
	return nil
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
	sum := newDigest()
	sum.addString(req.Method)
	sum.addString(req.URL.EscapedPath())
	sum.addString(req.URL.RawQuery)
	err := r.needBody()
	switch {
	case errors.Is(err, ErrBodyGone) && len(req.PostForm) > 0 && req.MultipartForm == nil:
		// An earlier middleware decoded the form, such as one that looks for a
		// CSRF token. Nothing else was in the body.
		sum.addString(req.PostForm.Encode())
	case err != nil:
		return nil, err
	default:
		if err := r.addBody(sum); err != nil {
			return nil, err
		}
	}
	return sum.Sum(nil), nil
}

// addBody adds the body as one text. It is not brought into memory for that.
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
