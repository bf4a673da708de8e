// Package httpcarry lets an HTTP handler run under the leases of its caller: see
// core/experimental/carry. The client has [Transport]; the server has [Handler] before its
// rules, most simply around the whole mux:
//
//	client := &http.Client{Transport: httpcarry.Transport(nil)}
//	server := &http.Server{Handler: httpcarry.Handler(mux)}
//
// A server without it ignores what clients carry. The caller must read the response to its
// end before it releases its leases. A request that has ended early, by its deadline, may
// still be at work on the server.
//
// The package is experimental, as its place says. Its functions are safe for concurrent use.
package httpcarry

import (
	"net/http"
	"strings"

	"github.com/keyturn/keyturn/core/experimental/carry"
)

// Transport returns next, for which nil means [http.DefaultTransport], with the leases that
// the request's context is under in a header. Use it in clients of services of your own only,
// because what it sends is a credential. After a redirect to another host, or from https to
// http, it sends nothing any more.
func Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{next}
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. It replaces or removes what a proxy has copied from its own
// caller: if the proxy has accepted that, it is in leases; otherwise it is not this client's to send.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	leases := carry.Leases(r.Context())
	if redirected(r) {
		leases = ""
	}
	if leases == "" && r.Header.Values(carry.Header) == nil {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context()) // the caller's must not be changed
	if leases == "" {
		r.Header.Del(carry.Header)
	} else {
		r.Header.Set(carry.Header, leases)
	}
	return t.next.RoundTrip(r)
}

// redirected reports whether another host decided, at any step, where r goes, or sent it to
// where others can listen.
func redirected(r *http.Request) bool {
	for step := r; step.Response != nil && step.Response.Request != nil; {
		step = step.Response.Request
		if step.URL.Host != r.URL.Host || step.URL.Scheme == "https" && r.URL.Scheme != "https" {
			return true
		}
	}
	return false
}

// CloseIdleConnections is what http.Client calls.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// Handler returns next, run under the leases that the client carries, as far as the store
// confirms them (carry.Accept).
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if said := r.Header.Values(carry.Header); len(said) > 0 {
			r = r.WithContext(carry.Accept(r.Context(), strings.Join(said, ",")))
		}
		next.ServeHTTP(w, r)
	})
}
