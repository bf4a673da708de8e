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

// request is what keys are made from. It belongs to one goroutine.
type request struct {
	*http.Request
	route func(*http.Request) string // see Settings
	limit int64                      // the maximum length of the body
	body  *spooledBody               // nil until it is needed, and if there is none
	start int64                      // where this rule found the body
	own   spooledBody

	document *jsonpath.Document // the body as JSON, once decoded
	query    url.Values         // once decoded
	fields   url.Values         // the fields of the form, once decoded
}

// keepBody keeps everything that is read of the body from now on, for the handler. A rule
// inside another one continues with what that one has kept.
func (r *request) keepBody() {
	if r.body != nil || r.Body == nil || r.Body == http.NoBody {
		return
	}
	if outer, ok := r.Body.(*spooledBody); ok {
		if start, complete := outer.keepAgain(); complete {
			r.body, r.start = outer, start
			return
		}
	}
	r.own.begin(r.Body, r.limit)
	r.body = &r.own
	r.Body = r.body
}

// fill reads the whole body, so that nobody waits for the client later.
func (r *request) fill() error {
	if r.ContentLength > r.limit {
		return &http.MaxBytesError{Limit: r.limit} // refused without reading it
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
	if r.length() > r.limit { // an outer rule with another limit may have read it
		return &http.MaxBytesError{Limit: r.limit}
	}
	return nil
}

// length is the length of the body, once it is filled.
func (r *request) length() int64 {
	if r.body == nil {
		return 0
	}
	return r.body.kept.size - r.start
}

// rewind gives the body to the handler as if nobody had read it.
func (r *request) rewind() {
	if r.body != nil {
		r.body.rewind(r.start)
	}
}

// end frees what was kept of the body.
func (r *request) end() {
	if r.body == &r.own {
		r.own.discard()
		r.Body = r.own.source
	}
}

// ErrBodyGone: something between the server and this middleware has read the body. The order of
// the middleware is wrong, not the request.
var ErrBodyGone = errors.New("keyturn: the body was read before this middleware, which needs it: put this one first")

// BodyError is the error of a body that broke off, or that an earlier middleware refused.
type BodyError struct{ error }

func (e *BodyError) Unwrap() error { return e.error }

// content returns the whole body. The bytes are valid until end.
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

// needBody is fill for a rule that needs the body.
func (r *request) needBody() error {
	if err := r.fill(); err != nil {
		return err
	}
	if r.length() == 0 && r.ContentLength > 0 {
		return ErrBodyGone
	}
	return nil
}

// json returns the body as a JSON document.
func (r *request) json() (jsonpath.Document, error) {
	if r.document != nil {
		return *r.document, nil
	}
	if !saysJSON(r.Header.Get("Content-Type")) {
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

// ErrNotJSON: the key is in a JSON body, but the Content-Type is another one. A handler that
// chooses the format by Content-Type, as Echo's c.Bind does, would read the body differently. A
// body written for both readers could then lock one key and change another.
var ErrNotJSON = errors.New("keyturn: the body is not JSON by its Content-Type")

func saysJSON(contentType string) bool {
	if contentType == "" { // without a type, the parser decides
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}

// form returns what Request.FormValue reads: the fields of the query and of the body. It does
// not change the request.
func (r *request) form() (url.Values, error) {
	if r.fields != nil {
		return r.fields, nil
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // in any case, as net/http takes it
	multipart := mediaType == "multipart/form-data"
	if r.Form != nil && (!multipart || r.MultipartForm != nil) {
		return r.Form, nil // an earlier middleware has decoded it
	}
	data, err := r.content()
	if err != nil {
		return nil, err
	}
	scratch := r.WithContext(r.Context())
	scratch.Form, scratch.PostForm = nil, nil
	scratch.Body = io.NopCloser(bytes.NewReader(data))
	if multipart {
		// The body is in memory already, so temporary files would gain nothing.
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

// keyBy calls a key function, of one key or of several. What the function reads of the body is kept.
func keyBy[K any](r *request, key func(*http.Request) (K, error)) (K, error) {
	r.keepBody()
	k, err := key(r.Request)
	if r.body != nil {
		if tooLarge := r.body.overLimit(); tooLarge != nil {
			err = tooLarge
		}
	}
	return k, err
}

// plain makes a key function for [keyBy] of one that has no errors.
func plain(key func(*http.Request) string) func(*http.Request) (string, error) {
	return func(req *http.Request) (string, error) { return key(req), nil }
}
