package ruletest

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
)

// MultipartBody makes a form with these fields, and a file of 100 kB.
func MultipartBody(t testing.TB, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	file, err := w.CreateFormFile("file", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(file, strings.Repeat("x", 100_000))
	w.Close()
	return b.String(), w.FormDataContentType()
}

// KeysOf returns the keys that a request runs under, joined by |.
func KeysOf(t testing.TB, r *http.Request) string {
	lease, found := core.LeaseFrom(r.Context())
	if !found {
		t.Error("the handler runs without a lease")
		return ""
	}
	var keys []string
	for _, claim := range lease.Claims() {
		keys = append(keys, claim.Key)
	}
	return strings.Join(keys, "|")
}

// request is a row of Keys.
type request struct {
	name     string
	template string
	target   string // default: /42
	body     string
	as       string // its Content-Type
	header   string // the lines of X-Tenant, separated by |
	keys     string // joined by |; "*": any
	detail   string // the detail of the refusal
	status   int    // the status of the refusal; default: 400
}

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

var inURLs = []request{
	{name: "a constant", template: "cron", keys: "cron"},
	{name: "a path value", template: "user:{path.id}", keys: "user:42"},
	{name: "a path value is escaped", template: "user:{path.id}", target: "/a:b", keys: "user:a%3Ab"},
	{name: "a path value in UTF-8", template: "user:{path.id}", target: "/%C3%A9", keys: "user:é"},
	{name: "a path spelt differently is the same path", template: "user:{path.id}", target: "/%34%32", keys: "user:42"},
	{name: "an encoded slash stays in the value", template: "user:{path.id}", target: "/a%2Fb", keys: "user:a%2Fb"},
	{name: "a percent sign", template: "user:{path.id}", target: "/%2534", keys: "user:%2534"},
	{name: "braces in the path", template: "user:{path.id}", target: "/foo%7Dbar", keys: "user:foo%7Dbar"},
	{name: "NUL in the path", template: "user:{path.id}", target: "/%00", keys: "user:%00"},
	{name: "CRLF in the path", template: "user:{path.id}", target: "/a%0d%0ab", keys: "user:a%0D%0Ab"},
	{name: "no UTF-8 in the path", template: "user:{path.id}", target: "/%ff", keys: "user:%FF"},
	{name: "a query parameter", template: "q:{query.q}", target: "/42?q=x+y", keys: "q:x%20y"},
	{name: "a query parameter with a dot", template: "q:{query.user.id}", target: "/42?user.id=7", keys: "q:7"},
	{name: "several, by [*]", template: "q:{query.q[*]}", target: "/42?q=b&q=a&q=b", keys: "q:a|q:b"},
	{name: "none of several", template: "q:{query.q[*]}", detail: "missing"},
	{name: "a number that is too large", template: "q:{query.q|int}", target: "/42?q=1e400", detail: "{query.q|int}: value is not an integer"},
	{name: "a query parameter missing", template: "q:{query.q}", detail: "{query.q}: value is missing or empty"},
	{name: "a query parameter empty", template: "q:{query.q}", target: "/42?q=", detail: "{query.q}"},
	{name: "a query parameter twice", template: "q:{query.q}", target: "/42?q=1&q=1", detail: "more than one value"},
}

var inHeaders = []request{
	{name: "a header", template: "t:{header.x-tenant}", header: "acme", keys: "t:acme"},
	{name: "a header in two lines", template: "t:{header.x-tenant}", header: "a|b", detail: "more than one value"},
	{name: "a header's lines, by [*]", template: "t:{header.X-Tenant[*]}", header: "b|a", keys: "t:a|t:b"},
	{name: "a header missing", template: "t:{header.x-tenant}", detail: "{header.x-tenant}"},
	{name: "the host, whatever it is", template: "h:{header.host|hash}", keys: "*"},
	{name: "a long header", template: "t:{header.x-tenant}", header: strings.Repeat("x", 100_000), detail: "longer than"},
}

var inForms = []request{
	{name: "a form field", template: "f:{form.name}", body: "name=Ada&x=1", as: asForm, keys: "f:Ada"},
	{name: "a form field in the query, as FormValue has it", template: "f:{form.name}", target: "/42?name=Ada", keys: "f:Ada"},
	{name: "a form field in body and query", template: "f:{form.name}", target: "/42?name=Ada", body: "name=Eve", as: asForm, detail: "more than one value"},
	{name: "a form field missing", template: "f:{form.name}", body: "x=1", as: asForm, detail: "{form.name}"},
	{name: "a form that is none", template: "f:{form.name}", body: "name=%zz", as: asForm, detail: "not a form"},
}

var inBodies = []request{
	{name: "a JSON member", template: "u:{body.user.id}", body: `{"user":{"id":"u1"}}`, as: asJSON, keys: "u:u1"},
	{name: "a JSON type with suffix", template: "u:{body.id}", body: `{"id":1}`, as: "application/vnd.im+json; charset=utf-8", keys: "u:1"},
	{name: "no Content-Type", template: "u:{body.id}", body: `{"id":1}`, keys: "u:1"},
	{name: "no integer", template: "u:{body.id|int}", body: `{"id":5.5}`, detail: "{body.id|int}: value is not an integer"},
	{name: "members of a list", template: "m:{body.m[*].id}", body: `{"m":[{"id":3},{"id":1},{"id":3}]}`, keys: "m:1|m:3"},
	{name: "list and path", template: "g:{path.id}:{body.m[*]}", body: `{"m":["b","a"]}`, keys: "g:42:a|g:42:b"},
	{name: "too many members", template: "m:{body.m[*]}", body: `{"m":[1` + strings.Repeat(",1", 4096) + `]}`, detail: "more than 4096"},
	{name: "an empty element", template: "m:{body.m[*]}", body: `{"m":["a",""]}`, detail: "missing"},
	{name: "two members", template: "{body.a}:{body.b}", body: `{"a":"x","b":"y"}`, keys: "x:y"},
	{name: "a JSON member missing", template: "u:{body.user.id}", body: `{"user":{}}`, detail: "{body.user.id}: value is missing or empty"},
	{name: "a megabyte for a value", template: "u:{body.id}", body: `{"id":"` + strings.Repeat("x", 1<<20-100) + `"}`, detail: "longer than"},
	{name: "NUL in JSON", template: "u:{body.id}", body: `{"id":"\u0000"}`, keys: "u:%00"},
	{name: "deep JSON", template: "u:{body.id}", body: strings.Repeat(`[`, 100_000), detail: "not JSON"},
	{name: "no body", template: "u:{body.id}", detail: "{body.id}: not JSON"},
	{name: "a media type that can't be read", template: "u:{body.id}", body: `{"id":1}`, as: ";", status: 415, detail: "JSON"},
	{name: "the body", template: "b:{body}", body: "hello", keys: "b:hello"},
	{name: "the body's digest", template: "b:{body|hash}", body: "hello", keys: "b:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
	{name: "no body for a digest", template: "b:{body|hash}", detail: "{body|hash}: value is missing or empty"},
}

// Keys tests which keys a template makes of a request. The handler, which reads the body again,
// sees them. Hostile requests are refused.
func Keys(t *testing.T, face Face) {
	form, formType := MultipartBody(t, "name", "Ada", "tag", "a", "tag", "b")
	files := []request{
		{name: "a field of a multipart form", template: "f:{form.name}", body: form, as: formType, keys: "f:Ada"},
		{name: "the type of a multipart form in other case", template: "f:{form.name}", target: "/42?name=Eve", body: form, as: strings.Replace(formType, "form-data", "Form-Data", 1), detail: "more than one value"},
		{name: "fields of a multipart form", template: "f:{form.tag[*]}", body: form, as: formType, keys: "f:a|f:b"},
		{name: "a multipart form that is none", template: "f:{form.name}", body: "name", as: formType, detail: "not a form"},
	}
	for _, tt := range slices.Concat(inURLs, inHeaders, inForms, files, inBodies) {
		t.Run(tt.name, func(t *testing.T) {
			s := face(t, Route{Template: tt.template, Handler: func(w http.ResponseWriter, r *http.Request) {
				if data, err := io.ReadAll(r.Body); err != nil || string(data) != tt.body {
					t.Errorf("the handler reads %d bytes, %v; want %d", len(data), err, len(tt.body))
				}
				write(w, 200, KeysOf(t, r))
			}})
			if tt.target == "" {
				tt.target = "/42"
			}
			req := s.NewRequest("PUT", tt.target, tt.body)
			if tt.as != "" {
				req.Header.Set("Content-Type", tt.as)
			}
			if tt.header != "" {
				req.Header["X-Tenant"] = strings.Split(tt.header, "|")
			}
			a, err := s.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			if tt.detail == "" {
				if a.Status != 200 || tt.keys != "*" && a.Body != tt.keys {
					t.Errorf("answer = %d %s, want the keys %s", a.Status, a.Body, tt.keys)
				}
				return
			}
			status, reason := 400, "KEY_INVALID"
			if tt.status == 415 {
				status, reason = 415, "MEDIA_TYPE"
			}
			if p := a.Problem(t, status, reason); !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail = %q, want it to say %q", p.Detail, tt.detail)
			}
		})
	}
}
