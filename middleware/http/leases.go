package lockhttp

import (
	"net/http"
	"strings"

	"github.com/keyturn/keyturn/core"
)

// LeaseHeader is the header in which leases are carried.
const LeaseHeader = "Keyturn-Lease"

// CarryLeases is a client's side of leases that reach further than one process:
// it tells the server which leases the request's context is under
// (core.CarryLeases), so that a handler there can take the same keys without
// waiting for its own caller. nil: [http.DefaultTransport].
//
//	client := &http.Client{Transport: lockhttp.CarryLeases(nil)}
//
// Use it in clients of services of your own, as what it sends is a credential. A
// redirect to another host, or from https to http, does not get it, and neither
// does what follows it.
//
// The caller has to read the response to its end before it releases. A request
// that has ended early, by its deadline, may still be at work over there.
func CarryLeases(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &carrier{next}
}

type carrier struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	leases := core.CarryLeases(r.Context())
	if leases == "" || redirected(r) {
		return c.next.RoundTrip(r)
	}
	r = r.Clone(r.Context()) // the caller's is not to be changed
	r.Header.Set(LeaseHeader, leases)
	return c.next.RoundTrip(r)
}

// redirected reports whether another host had a say in where r goes, at whichever
// step, or sent it where others can listen.
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
func (c *carrier) CloseIdleConnections() {
	if next, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// AcceptLeases is a server's side of [CarryLeases]: what the client says that it
// holds is believed as far as the store confirms it (core.WithCarried), by the
// rules behind this middleware and by what the handler itself acquires. It stands
// before the rules, most simply around the whole mux:
//
//	http.Server{Handler: lockhttp.AcceptLeases(mux)}
//
// A server without it takes no notice.
func AcceptLeases(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if said := r.Header.Values(LeaseHeader); len(said) > 0 {
			r = r.WithContext(core.WithCarried(r.Context(), strings.Join(said, ",")))
		}
		next.ServeHTTP(w, r)
	})
}
