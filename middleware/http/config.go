package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
)

// DefaultBodyLimit is how many bytes a request's body may have, unless a config
// says otherwise, when the key or the fingerprint comes from it.
const DefaultBodyLimit = httprule.DefaultBodyLimit

// DefaultSpoolLimit is how many bytes any other body may have, unless a config
// says otherwise.
const DefaultSpoolLimit = httprule.DefaultSpoolLimit

// ReplayedHeader is set to "true" on a response that comes from the record of
// an earlier request.
const ReplayedHeader = httprule.ReplayedHeader

// SerializeConfig is what there is to say about requests that run one at a time
// per key. The zero value lacks Engine and one of Template and Key; the rest
// has defaults.
type SerializeConfig struct {
	// Engine takes the locks.
	Engine *core.Engine
	// Template or Key: where the key comes from, as in [Locks.Serialize] and
	// [Locks.SerializeBy]. Exactly one.
	Template string
	Key      func(*http.Request) string
	// Options are the rule's policy.
	Options []core.CallOption

	// Skipper says which requests pass untouched, without a lock. nil: none.
	Skipper func(*http.Request) bool
	// ErrorHandler answers refusals. It is given what refused: an error of
	// core's, the request's own context's, or what is wrong with the request,
	// which [ProblemOf] tells apart. nil: [DefaultErrorHandler].
	//
	// It is not asked when the response has been sent in part, as there is
	// nothing left to answer: the connection ends, and slog.Default() is told.
	ErrorHandler ErrorHandler
	// BodyLimit is how many bytes the request's body may have; more is answered
	// with 413. The body is read before the key is asked for: up to 64 KiB of it
	// into memory, the rest into a temporary file. A {body} and what a {body.x} or a
	// {form.x} is decoded from is in memory as well, while the key is made. 0:
	// [DefaultBodyLimit] where the template has one of these, else
	// [DefaultSpoolLimit].
	BodyLimit int64
	// StreamBody leaves the body for the handler to read from the client, with
	// any length: for uploads that are too large to be kept, and for handlers that
	// answer before they have read it all. A client that sends slowly keeps the
	// key then, until http.Server's ReadTimeout, or a read deadline that the handler
	// sets. What a key function reads is limited by BodyLimit. It is an error if
	// the template needs the body.
	StreamBody bool
}

// ToMiddleware checks the config, all of it, and makes the middleware. The
// error joins all that is wrong.
func (config SerializeConfig) ToMiddleware() (func(http.Handler) http.Handler, error) {
	s := settings(config.Engine, config.Template, config.Key, config.Options, config.BodyLimit)
	s.StreamBody = config.StreamBody
	r, err := httprule.Serialize(s)
	return middleware(r, err, config.Skipper, config.ErrorHandler)
}

// OnceConfig is what there is to say about requests that are processed once.
// Its first fields are those of [SerializeConfig]. Once needs the whole body, for
// the fingerprint, so it is not left to the handler, and BodyLimit is
// [DefaultBodyLimit] where it is 0.
type OnceConfig struct {
	Engine   *core.Engine
	Template string
	Key      func(*http.Request) string
	Options  []core.CallOption

	Skipper      func(*http.Request) bool
	ErrorHandler ErrorHandler
	BodyLimit    int64

	// ResultLimit is how many bytes a stored response may have, with its
	// headers. One that is larger reaches its client and is not stored; repeats
	// get 409. 0: what core.WithResultLimit says, among Options or else of the
	// engine.
	ResultLimit int
	// Headers are the names of headers to be stored with the response, besides
	// Content-Type and the others that describe a body, Location, Link, ETag and
	// Last-Modified. Think before you name Set-Cookie: what is stored is given
	// to whoever comes with the key.
	Headers []string
	// Storable says by its status whether a response is stored. For one that is
	// not, the execution counts as failed, and a repeat runs. nil:
	// [DefaultStorable].
	Storable func(status int) bool
}

// ToMiddleware checks the config, all of it, and makes the middleware. The
// error joins all that is wrong.
func (config OnceConfig) ToMiddleware() (func(http.Handler) http.Handler, error) {
	r, err := httprule.Once(
		settings(config.Engine, config.Template, config.Key, config.Options, config.BodyLimit),
		httprule.Memory{ResultLimit: config.ResultLimit, Headers: config.Headers, Storable: config.Storable},
	)
	return middleware(r, err, config.Skipper, config.ErrorHandler)
}

// DefaultStorable reports whether a response with this status is stored, and so
// given again: what the handler made of the request, success or error, as
// draft-ietf-httpapi-idempotency-key-header has it. Not stored are the
// responses that ask the caller to come again, or do so for the server: 401,
// 408, 409, 423, 425, 429, and all from 500 on.
func DefaultStorable(status int) bool { return httprule.DefaultStorable(status) }

func settings(eng *core.Engine, template string, key func(*http.Request) string, opts []core.CallOption, bodyLimit int64) httprule.Settings {
	return httprule.Settings{
		Package: "lockhttp", Engine: eng, Template: template, Key: ofRequest(key), Options: opts, BodyLimit: bodyLimit,
	}
}

// ofRequest turns a function of the request into one of the exchange. nil stays nil.
func ofRequest(f func(*http.Request) string) func(httprule.Exchange) string {
	if f == nil {
		return nil
	}
	return func(x httprule.Exchange) string { return f(x.Request()) }
}
