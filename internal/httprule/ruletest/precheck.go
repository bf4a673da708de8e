package ruletest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/middleware/http"
)

// Prechecks refuse a request before it can queue for a key, and before it gets a stored response.
func Prechecks(t *testing.T, face Face) {
	var denied atomic.Bool
	var calls atomic.Int64
	precheck := func(*http.Request) error {
		if denied.Load() {
			return errors.New("no member of this group")
		}
		return nil
	}
	store := NewStore()
	s := face(t, Route{Engine: NewEngine(t, store), Once: true, Handler: counted(&calls, Done), Precheck: precheck})
	denied.Store(true)
	s.Do("POST", "/1", "").Problem(t, 403, "FORBIDDEN")
	if n := store.Requests(); n != 0 || calls.Load() != 0 {
		t.Errorf("%d requests for the lock, %d calls", n, calls.Load())
	}
	denied.Store(false)
	s.Do("POST", "/1", "")
	if a := s.Do("POST", "/1", ""); !a.Replayed() {
		t.Errorf("%+v", a)
	}
	denied.Store(true)
	s.Do("POST", "/1", "").Problem(t, 403, "FORBIDDEN")

	// One that becomes forbidden while it waits gets no stored response.
	denied.Store(false)
	first, second := twins(t, face, Route{Handler: Done, Precheck: precheck}, func() { denied.Store(true) })
	if first.Status+second.Status != 200+403 {
		t.Errorf("%+v, %+v", first, second)
	}
}

// PrecheckErrors: what a precheck refuses is forbidden, whatever its error matches.
func PrecheckErrors(t *testing.T, face Face) {
	for _, own := range []error{&http.MaxBytesError{}, &core.KeyError{}, &keytmpl.ValueError{Err: errors.New("bad")}, core.ErrHeld} {
		s := face(t, Route{Precheck: func(*http.Request) error { return fmt.Errorf("not yours: %w", own) }})
		s.Do("POST", "/1", "").Problem(t, 403, "FORBIDDEN")
	}
}

// EarlyRelease: the handler gives the key back, and answers as if it had it.
func EarlyRelease(t *testing.T, face Face) {
	eng := NewEngine(t, NewStore())
	s := face(t, Route{Engine: eng, Handler: func(w http.ResponseWriter, r *http.Request) {
		if err := core.ReleaseEarly(r.Context()); err != nil {
			t.Error(err)
		}
		if IsHeld(t, eng, "k:1") || r.Context().Err() != nil {
			t.Errorf("held, or the context has ended: %v", r.Context().Err())
		}
		Done(w, r)
	}})
	if a := s.Do("POST", "/1", ""); a.Status != 200 || a.Body != "done" {
		t.Errorf("%+v", a)
	}
}

// ErrorsAs200: a service that answers errors with 200 says by the body which of them are not stored.
func ErrorsAs200(t *testing.T, face Face) {
	var calls atomic.Int64
	s := face(t, Route{
		Once: true,
		Storable: func(r lockhttp.Response) bool {
			return lockhttp.DefaultStorable(r.Status) && r.Header.Get("Content-Type") == "text/plain" && !bytes.Contains(r.Body, []byte(`"errCode":500`))
		},
		Handler: counted(&calls, func(w http.ResponseWriter, r *http.Request) {
			if calls.Load() == 1 {
				write(w, 200, `{"errCode":500,"errMsg":"database is down"}`)
				return
			}
			write(w, 200, `{"errCode":0}`)
		}),
	})
	s.Do("POST", "/1", "")
	if a := s.Do("POST", "/1", ""); a.Replayed() || a.Body != `{"errCode":0}` {
		t.Errorf("the repeat of a failure: %+v", a)
	}
	if a := s.Do("POST", "/1", ""); !a.Replayed() || a.Body != `{"errCode":0}` || calls.Load() != 2 {
		t.Errorf("the repeat of a success: %+v after %d calls", a, calls.Load())
	}
}

// NoWayAround tests that no path leads to a handler without its rule. router has a route for PUT, of the given
// pattern, that is users/ and a parameter.
func NoWayAround(t *testing.T, pattern string, router func(eng *core.Engine, h http.Handler, rules ...lockhttp.Rule) http.Handler) {
	h := router(NewEngine(t, NewStore()), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, locked := core.LeaseFrom(r.Context())
		if !locked || len(lease.Claims()) != 1 || lease.Claims()[0].Key != "right" {
			t.Errorf("%s: lease %v, want one of the route's rule", r.URL, lease)
		}
		Done(w, r)
	}), lockhttp.Serialize("PUT "+pattern, "right"), lockhttp.Serialize("PUT /api"+pattern, "wrong"))
	for _, path := range []string{"/users/42/", "/users/42/x", "//users/42", "/users//42", "/x/../users/42", "/users/api/x/y", "/api/../users/42", "/users/42"} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, path, nil))
		if rec.Code == http.StatusInternalServerError || path == "/users/42" && rec.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
