package console

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy lets a page load nothing but the console's own style sheet and script, and be in no frame. Keys
// come from requests of strangers, so this is the second wall behind html/template.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	switch {
	case !c.rightHost(r):
		http.Error(w, "this server has another name", http.StatusMisdirectedRequest)
	case c.cfg.reader != nil && !c.cfg.reader(r):
		http.Error(w, "you may not look here", http.StatusForbidden)
	case c.origins.Check(r) != nil:
		http.Error(w, "the request comes from another site", http.StatusForbidden)
	default:
		c.mux.ServeHTTP(w, r)
	}
}

func (c *Console) rightHost(r *http.Request) bool {
	if c.cfg.hosts == nil {
		return true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return slices.Contains(c.cfg.hosts, strings.ToLower(strings.Trim(host, "[]")))
}

// operator returns the name of the operator who sent the request; "": it was none. What a page shows and what a form
// may do both depend on that alone.
func (c *Console) operator(r *http.Request) string {
	if c.cfg.operator == nil {
		return ""
	}
	if name, ok := c.cfg.operator(r); ok {
		return name
	}
	return ""
}

// mostForm bounds the body of a form: a key, a reason, and the leases of many readers.
const mostForm = 256 << 10

// operate lets only operators do what changes something.
func (c *Console) operate(do func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := c.operator(r)
		if name == "" {
			http.Error(w, "this console is read only for you", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form can't be read", http.StatusBadRequest)
			return
		}
		do(w, r, name)
	}
}
