package lockecho

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
)

// once is a guard that remembers responses.
type once struct {
	*guard
	resultLimit int
	headers     []string
	storable    func(status int) bool
}

// DefaultStorable reports whether a response with this status is stored, and so
// given again: what the handler made of the request, success or error, as
// draft-ietf-httpapi-idempotency-key-header has it. Not stored are the
// responses that ask the caller to come again, or do so for the server: 401,
// 408, 409, 423, 425, 429, and all from 500 on.
func DefaultStorable(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < http.StatusInternalServerError
}

// errNotStored abandons the claim of an execution whose response says that it
// failed.
var errNotStored = errors.New("lockecho: the response is not one to be stored")

// serve runs next, or gives the response that it gave before.
func (o *once) serve(c echo.Context, next echo.HandlerFunc) error {
	r := &request{Context: c, limit: o.bodyLimit}
	key, digest, err := o.identify(r)
	r.rewind()
	if err != nil {
		return o.refuse(c, err)
	}
	h := hold(c.Response(), o.resultLimit, true)
	defer h.end() // for a panic; else it is done below
	var failed error
	out, refused, _ := o.rule.RunOnce(c.Request().Context(), key, func(ctx context.Context) ([]byte, error) {
		failed = call(ctx, c, answering(next))
		return o.record(h, failed)
	}, core.WithFingerprint(digest), core.WithResultLimit(max(o.resultLimit, len(noResponse))))
	if refused == nil && out.Duplicate {
		h.end()
		return o.replay(c, out.Result)
	}
	return o.finish(c, h, refused, failed)
}

// identify says what the request is called and what it contains.
func (o *once) identify(r *request) (key string, digest []byte, err error) {
	claims, err := o.rule.Claims(r)
	if err != nil {
		return "", nil, err
	}
	digest, err = r.fingerprint()
	return claims[0].Key, digest, err
}

// answering has Echo's error handler make a response of an error, here, where
// it can be seen: only the response tells whether the error is an outcome, such
// as 404, or a failure. The error is returned as well, for those who log it;
// Echo leaves a response alone that was given.
func answering(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		return err
	}
}

// record is what to remember of h, or errNotStored.
func (o *once) record(h *heldResponse, failed error) ([]byte, error) {
	status := h.status
	if status == 0 {
		if failed != nil { // and the error handler did not answer it
			return nil, errNotStored
		}
		status = http.StatusOK
	}
	if !h.hijacked && !o.storable(status) {
		return nil, errNotStored
	}
	if h.whole && !h.hijacked {
		if rec := encode(status, pick(h.Header(), o.headers), h.body); len(rec) <= o.resultLimit {
			return rec, nil
		}
	}
	// It was processed, which is what must not happen again.
	return []byte(noResponse), nil
}

// replay gives the response that is on record.
func (o *once) replay(c echo.Context, rec []byte) error {
	if string(rec) == noResponse {
		return o.refuse(c, errNoResponse)
	}
	status, header, body, err := decode(rec)
	if err != nil {
		return o.refuse(c, err)
	}
	res := c.Response()
	for name, values := range header {
		res.Header()[name] = values
	}
	res.Header().Set(ReplayedHeader, "true")
	res.WriteHeader(status)
	if len(body) == 0 {
		return nil
	}
	_, err = res.Write(body)
	return err
}
