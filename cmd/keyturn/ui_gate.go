package main

import (
	"context"
	"crypto/subtle"
	"net/http"
	"os/user"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// gate lets only those in whom admit lets in. It answers those that it does not.
type gate struct {
	admit   func(w http.ResponseWriter, r *http.Request) (name string, ok bool)
	operate bool
	next    http.Handler
}

// nameKey is the key of a request's context for the name of who sent it.
type nameKey struct{}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := g.admit(w, r); ok {
		g.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nameKey{}, name)))
	}
}

// operator says who may break locks: all that are let in, if anybody may.
func (g *gate) operator(r *http.Request) (string, bool) {
	name, known := r.Context().Value(nameKey{}).(string)
	return name, g.operate && known
}

// byToken lets in who has the token, in the name of the user of this process. The token in the address becomes a
// cookie that other sites can't use, and leaves the address, so that it is in no history and no screenshot.
// Browsers give the cookies of a host to all of its ports, so its name has the port.
func byToken(token, port string, secure bool) func(http.ResponseWriter, *http.Request) (string, bool) {
	cookie := "keyturn_ui_" + port
	right := func(text string) bool { return subtle.ConstantTimeCompare([]byte(text), []byte(token)) == 1 }
	self := "unknown"
	if u, err := user.Current(); err == nil {
		self = u.Username
	}
	return func(w http.ResponseWriter, r *http.Request) (string, bool) {
		if c, err := r.Cookie(cookie); err == nil && right(c.Value) {
			return self, true
		}
		if r.Method != http.MethodGet || !right(r.URL.Query().Get("token")) {
			http.Error(w, "open the address that keyturn ui printed", http.StatusForbidden)
			return "", false
		}
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: token, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return "", false
	}
}

// byHeader lets in whom a proxy names in this header. Two names are none: a proxy that adds its header
// to one that the client has sent names nobody.
func byHeader(header string) func(http.ResponseWriter, *http.Request) (string, bool) {
	return func(w http.ResponseWriter, r *http.Request) (string, bool) {
		names := r.Header.Values(header)
		if len(names) != 1 || !printable(names[0]) {
			http.Error(w, "the proxy did not say who you are", http.StatusForbidden)
			return "", false
		}
		return names[0], true
	}
}

// printable reports whether name can stand in a reason.
func printable(name string) bool {
	return name != "" && len(name) <= driver.MaxNoteBytes/2 && strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
