package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
)

// Rule says which requests of one route exclude each other, or count as the same. Make one with
// [Serialize], [Once], [Idempotency] or their By forms. [New] checks it; the zero Rule is an error
// there.
type Rule struct {
	route    string
	kind     kind
	settings httprule.Settings
	memory   httprule.Memory
	sender   httprule.Idempotent
}

// kind is what a rule does.
type kind uint8

const (
	serialize kind = iota
	once
	idempotency
)

// Serialize runs the requests of a route one at a time per key.
//
// route is the route as its router has it: "PUT /users/{id}/status" with http.ServeMux. Without a
// method it covers all of them. "*" covers every request that reaches the middleware. template makes
// the key: "user:status:{path.id}". The package's documentation lists the placeholders.
//
// Several rules of one route, such as one of the group and one of the user, are one set: all or none, in
// one order, so that requests do not deadlock. Each has its mode. The other options of the set are those
// of the first rule, and the others must not have any. Rules of Once, and those of other routes that
// cover a request ("*"), are around it or within it: the first of them is the outermost.
//
// opts are the rule's policy, such as core.WithMaxWait, core.WithFailFast, core.WithTTL,
// core.WithMaxHold and core.WithRunUnlocked. For everything else the engine's settings count.
// With core.WithShared or core.WithPermits, requests share the key. With core.WithHierarchy, a
// "/" in the template separates levels, as in "group:{path.group}/member:{path.member}".
func Serialize(route, template string, opts ...core.CallOption) Rule {
	return Rule{route: route, settings: httprule.Settings{Template: template, Options: opts}}
}

// SerializeBy is [Serialize] with a function that makes the key, for keys that a template
// cannot express.
//
// The result of key is used unchanged; keytmpl.Escape keeps the parts of a composed key apart.
// A key that driver.ValidateKey refuses, such as "", is the caller's error, 400. key may read
// the request's body, up to the limit; the handler reads it again from its beginning. key is
// called from many goroutines.
//
// Hooks (observe.Hooks) know a rule by its template, and one with a function by its route.
// core.WithRule gives it another name.
func SerializeBy(route string, key func(*http.Request) string, opts ...core.CallOption) Rule {
	return Rule{route: route, settings: httprule.Settings{Key: key, Options: opts}}
}

// SerializeKeys is [SerializeBy] for a function that returns all keys of a request. They are
// taken together, as one set. The order does not matter, and a key may be there twice. No key is the
// caller's error, 400. An error of keys is the server's, 500, unless it matches core.ErrInvalidKey or
// keytmpl.ErrMissingValue.
func SerializeKeys(route string, keys func(*http.Request) ([]string, error), opts ...core.CallOption) Rule {
	return Rule{route: route, settings: httprule.Settings{Keys: keys, Options: opts}}
}

// Once processes requests with the same key once. While the first runs, the others wait for it,
// or are refused with core.WithFailFast. After it they get its response, for
// core.WithRetention, with the header [ReplayedHeader]. The package's documentation says which
// responses are kept.
//
// A repeat with other content is refused, unless opts has core.WithoutFingerprint. A response of
// more than core.WithResultLimit bytes, with its headers, reaches its client only, and repeats get
// 409.
//
// The key decides which caller gets which response. Put the caller into it if two callers may
// use the same id. [Idempotency] does so. All rules of an engine, also those of other middlewares,
// share one set of keys: begin those of each with a word of its own.
func Once(route, template string, opts ...core.CallOption) Rule {
	r := Serialize(route, template, opts...)
	r.kind = once
	return r
}

// OnceBy is [Once] with a function that makes the key; see [SerializeBy].
func OnceBy(route string, key func(*http.Request) string, opts ...core.CallOption) Rule {
	r := SerializeBy(route, key, opts...)
	r.kind = once
	return r
}

// Idempotency processes requests with the same Idempotency-Key once, as in
// draft-ietf-httpapi-idempotency-key-header. The package's documentation says more. Without a method
// in route, it covers POST and PATCH, because the other methods are idempotent by themselves, or
// change nothing.
//
// caller returns who sends a request, such as the user whom an outer middleware has
// authenticated. So two callers with the same key do not get each other's responses. "" refuses
// the request. If a service cannot tell its callers apart, use [AnyCaller].
//
// opts are the rule's policy. A repeat during the first request is refused at once, unless opts
// has core.WithMaxWait.
func Idempotency(route string, caller func(*http.Request) string, opts ...core.CallOption) Rule {
	r := Rule{route: route, kind: idempotency, settings: httprule.Settings{Options: opts}}
	r.sender.Caller = caller
	r.sender.Method, _ = split(route)
	return r
}

// AnyCaller treats all callers as one: everybody who knows an idempotency key gets the stored
// response. It is for services with a single client, or whose responses everybody may see.
func AnyCaller(*http.Request) string { return "anyone" }

// Header returns the rule of [Idempotency] with another header that has the key.
func (r Rule) Header(name string) Rule {
	r.sender.Header = name
	return r
}

// Optional returns the rule of [Idempotency] such that requests without the header pass without it,
// so they may be processed twice. By default they are refused with 400.
func (r Rule) Optional() Rule {
	r.sender.Optional = true
	return r
}

// Precheck returns the rule with a function that refuses requests before they ask for the lock: whoever
// may not do what the handler does must not queue for its key, or get a stored response. It runs again
// before a replay. Its error is answered with 403. It must not wait for locks. nil, the default: none.
func (r Rule) Precheck(check func(*http.Request) error) Rule {
	r.settings.Precheck = check
	return r
}

// SkipIf returns the rule with a function that returns true for requests that pass without it. Coverage
// then calls the rule partial. It may be asked twice about a request. nil, the default: none.
func (r Rule) SkipIf(skip func(*http.Request) bool) Rule {
	r.settings.Skip = skip
	return r
}

// BodyLimit returns the rule with the size, in bytes, of the largest body. A larger one is answered
// with 413. The body is read before the request waits for its key: up to 64 KiB into memory, the rest
// into a temporary file. A {body}, and what {body.x} or {form.x} is decoded from, is also in memory
// while the key is made. Default, and 0: 1 MiB for these and for [Once], otherwise 10 MiB.
func (r Rule) BodyLimit(bytes int64) Rule {
	r.settings.BodyLimit = bytes
	return r
}

// StreamBody returns the rule such that the body, of any size, is left to the handler. It is for
// uploads that are too large to be kept, and for handlers that answer before they have read all of it.
// A client that sends slowly then keeps the key, until http.Server's ReadTimeout or a read deadline
// of the handler. What a key function reads is limited by BodyLimit. It is an error if the template
// needs the body, if another rule of the same set lacks it, and with Once. Other rules of the same requests, such as
// one for "*", then leave the body as well, unless their keys are made from it or they are rules of Once.
func (r Rule) StreamBody() Rule {
	r.settings.StreamBody = true
	return r
}

// StoredHeaders returns the rule of [Once] with names of headers and trailers that are stored with the
// response, besides those that describe the body (such as Content-Type), Location, Link, ETag and
// Last-Modified. A repeat gets the stored headers, and anybody who knows the key can send one. So a
// name such as Set-Cookie gives one user's session to another.
func (r Rule) StoredHeaders(names ...string) Rule {
	r.memory.Headers = names
	return r
}

// Storable returns the rule of [Once] with a function that says whether a response is stored. If it is
// not, the execution counts as failed, and a repeat runs. Services that answer errors with 200 look at
// the body. nil: [DefaultStorable], by the status alone.
func (r Rule) Storable(storable func(Response) bool) Rule {
	r.memory.Storable = storable
	return r
}

// ReplayedHeader is the header that is "true" on a response from the record of an earlier request.
const ReplayedHeader = httprule.ReplayedHeader

// Response is what a handler has answered, for [Rule.Storable]. Body has its beginning: all of it up to
// 64 KiB, or up to core.WithResultLimit if that is more; nil if a larger one was sent at once. Neither
// Header nor Body must be changed or kept.
type Response = httprule.Response

// DefaultStorable reports whether a response with this status is stored, and given again: the
// handler's answer to the request, success or error, as
// draft-ietf-httpapi-idempotency-key-header has it. Responses that ask the client to come again
// are not stored: 401, 408, 409, 423, 425, 429, and all from 500 on.
func DefaultStorable(status int) bool { return httprule.DefaultStorable(status) }
