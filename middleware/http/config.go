package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
)

// ReplayedHeader is the header that is "true" on a response from the record of an earlier request.
const ReplayedHeader = httprule.ReplayedHeader

// SerializeConfig has all settings of a rule that runs requests one at a time per key. Engine
// and one of Template and Key are required. The zero values of the others are the defaults.
type SerializeConfig struct {
	// Engine takes the locks.
	Engine *core.Engine
	// Template, Key or Keys says where the keys come from, as in [Locks.Serialize],
	// [Locks.SerializeBy] and [Locks.SerializeKeys]. Set exactly one.
	Template string
	Key      func(*http.Request) string
	Keys     func(*http.Request) ([]string, error)
	// Options are the rule's policy.
	Options []core.CallOption

	// Skipper returns true for requests that pass without a lock. Nil: none does.
	Skipper func(*http.Request) bool
	// Precheck refuses requests before they ask for the lock: whoever may not do what the handler
	// does must not queue for its key, or get a stored response. It runs again before a replay. Its
	// error is answered with 403, or by the ErrorHandler. It must not wait for locks. Nil: none.
	Precheck func(*http.Request) error
	// ErrorHandler answers refusals. It gets the reason, the rule, the key and when to come
	// again; [ProblemOf] says what the default answer is. nil: [DefaultErrorHandler].
	//
	// It is not called if a part of the response has been sent. Then the connection ends, and
	// slog.Default() logs it.
	ErrorHandler ErrorHandler
	// BodyLimit is the size, in bytes, of the largest body. A larger one is answered with 413.
	// The body is read before the request waits for its key: up to 64 KiB into memory, the rest
	// into a temporary file. A {body}, and what {body.x} or {form.x} is decoded from, is also in
	// memory while the key is made. 0: 1 MiB if the template has one of these, otherwise 10 MiB.
	BodyLimit int64
	// StreamBody leaves the body, of any size, to the handler. It is for uploads that are too
	// large to be kept, and for handlers that answer before they have read all of it. A client
	// that sends slowly then keeps the key, until http.Server's ReadTimeout or a read deadline
	// of the handler. What a key function reads is limited by BodyLimit. It is an error if the
	// template needs the body.
	StreamBody bool
}

// ToMiddleware checks the config and makes the middleware. The error joins everything that is
// wrong. It does no I/O.
func (config SerializeConfig) ToMiddleware() (func(http.Handler) http.Handler, error) {
	s := settings(config.Engine, config.Template, config.Key, config.Precheck, config.Options, config.BodyLimit)
	s.StreamBody = config.StreamBody
	if config.Keys != nil {
		s.Keys = func(x httprule.Exchange) ([]string, error) { return config.Keys(x.Request()) }
	}
	r, err := httprule.Serialize(s)
	return middleware(r, err, config.Skipper, config.ErrorHandler)
}

// OnceConfig has all settings of a rule that processes requests once. The fields up to BodyLimit
// are those of [SerializeConfig], except that a BodyLimit of 0 is always 1 MiB: Once reads the
// whole body for the fingerprint.
type OnceConfig struct {
	Engine   *core.Engine
	Template string
	Key      func(*http.Request) string
	Options  []core.CallOption

	Skipper      func(*http.Request) bool
	Precheck     func(*http.Request) error
	ErrorHandler ErrorHandler
	BodyLimit    int64

	// ResultLimit is the size, in bytes, of the largest response that is stored, with its
	// headers. A larger one reaches its client only, and repeats get 409. 0: what
	// core.WithResultLimit says in Options or for the engine.
	ResultLimit int
	// Headers are the names of headers and trailers that are stored with the response, besides
	// those that describe the body (such as Content-Type), Location, Link, ETag and Last-Modified.
	// A repeat gets the stored headers, and anybody who knows the key can send one. So a name
	// such as Set-Cookie gives one user's session to another.
	Headers []string
	// Storable reports whether a response is stored. If it is not, the execution counts as failed,
	// and a repeat runs. Services that answer errors with 200 look at the body. Nil:
	// [DefaultStorable], by the status alone.
	Storable func(Response) bool
}

// ToMiddleware checks the config and makes the middleware. The error joins everything that is
// wrong. It does no I/O.
func (config OnceConfig) ToMiddleware() (func(http.Handler) http.Handler, error) {
	r, err := httprule.Once(
		settings(config.Engine, config.Template, config.Key, config.Precheck, config.Options, config.BodyLimit),
		httprule.Memory{ResultLimit: config.ResultLimit, Headers: config.Headers, Storable: config.Storable},
	)
	return middleware(r, err, config.Skipper, config.ErrorHandler)
}

// Response is what a handler has answered, for [OnceConfig]. Body has its beginning: all of it up to
// 64 KiB, or up to the ResultLimit if that is more; nil if a larger one was sent at once. Neither
// Header nor Body must be changed or kept.
type Response = httprule.Response

// DefaultStorable reports whether a response with this status is stored, and given again: the
// handler's answer to the request, success or error, as
// draft-ietf-httpapi-idempotency-key-header has it. Responses that ask the client to come again
// are not stored: 401, 408, 409, 423, 425, 429, and all from 500 on.
func DefaultStorable(status int) bool { return httprule.DefaultStorable(status) }

func settings(eng *core.Engine, template string, key func(*http.Request) string, precheck func(*http.Request) error, opts []core.CallOption, bodyLimit int64) httprule.Settings {
	s := httprule.Settings{
		Package: "lockhttp", Engine: eng, Template: template, Key: ofRequest(key), Options: opts, BodyLimit: bodyLimit,
	}
	if precheck != nil {
		s.Precheck = func(x httprule.Exchange) error { return precheck(x.Request()) }
	}
	return s
}

// ofRequest turns a function of the request into one of the exchange. nil stays nil.
func ofRequest(f func(*http.Request) string) func(httprule.Exchange) string {
	if f == nil {
		return nil
	}
	return func(x httprule.Exchange) string { return f(x.Request()) }
}
