package lockecho

import (
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/http"
)

// DefaultBodyLimit is how many bytes a request's body may have, unless a config
// says otherwise, when the key or the fingerprint comes from it.
const DefaultBodyLimit = lockhttp.DefaultBodyLimit

// DefaultSpoolLimit is how many bytes any other body may have, unless a config
// says otherwise.
const DefaultSpoolLimit = lockhttp.DefaultSpoolLimit

// ReplayedHeader is set to "true" on a response that comes from the record of
// an earlier request.
const ReplayedHeader = lockhttp.ReplayedHeader

// ErrorHandler answers a request in place of the handler that did not run, or
// whose response may not be sent as its lease was lost. See [SerializeConfig].
type ErrorHandler func(c echo.Context, err error) error

// SerializeConfig is what there is to say about requests that run one at a time
// per key. The zero value lacks Engine and one of Template and Key; the rest
// has defaults.
type SerializeConfig struct {
	// Engine takes the locks.
	Engine *core.Engine
	// Template or Key: where the key comes from, as in [Locks.Serialize] and
	// [Locks.SerializeBy]. Exactly one.
	Template string
	Key      func(echo.Context) string
	// Options are the rule's policy.
	Options []core.CallOption

	// Skipper says which requests pass untouched, without a lock. nil: none.
	Skipper middleware.Skipper
	// ErrorHandler answers refusals. It is given what refused: an error of
	// core's, the request's own context's, or what is wrong with the request,
	// which [ProblemOf] tells apart. nil: [DefaultErrorHandler].
	//
	// It is not asked when the response has been sent in part, as there is
	// nothing left to answer: the connection ends.
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

// SerializeWithConfig is [Locks.Serialize] with all its settings. It panics
// where ToMiddleware returns an error.
func SerializeWithConfig(config SerializeConfig) echo.MiddlewareFunc {
	return must(config.ToMiddleware())
}

// ToMiddleware checks the config, all of it, and makes the middleware. The
// error joins all that is wrong.
func (config SerializeConfig) ToMiddleware() (echo.MiddlewareFunc, error) {
	s := settings(config.Engine, config.Template, config.Key, config.Options, config.BodyLimit)
	s.StreamBody = config.StreamBody
	r, err := httprule.Serialize(s)
	return middlewareOf(r, err, config.Skipper, config.ErrorHandler)
}

// OnceConfig is what there is to say about requests that are processed once.
// Its first fields are those of [SerializeConfig]. Once needs the whole body, for
// the fingerprint, so it is not left to the handler, and BodyLimit is
// [DefaultBodyLimit] where it is 0.
type OnceConfig struct {
	Engine   *core.Engine
	Template string
	Key      func(echo.Context) string
	Options  []core.CallOption

	Skipper      middleware.Skipper
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

// OnceWithConfig is [Locks.Once] with all its settings. It panics where
// ToMiddleware returns an error.
func OnceWithConfig(config OnceConfig) echo.MiddlewareFunc {
	return must(config.ToMiddleware())
}

// ToMiddleware checks the config, all of it, and makes the middleware. The
// error joins all that is wrong.
func (config OnceConfig) ToMiddleware() (echo.MiddlewareFunc, error) {
	r, err := httprule.Once(
		settings(config.Engine, config.Template, config.Key, config.Options, config.BodyLimit),
		httprule.Memory{ResultLimit: config.ResultLimit, Headers: config.Headers, Storable: config.Storable},
	)
	return middlewareOf(r, err, config.Skipper, config.ErrorHandler)
}

// DefaultStorable reports whether a response with this status is stored; see
// lockhttp.DefaultStorable.
func DefaultStorable(status int) bool { return lockhttp.DefaultStorable(status) }

func settings(eng *core.Engine, template string, key func(echo.Context) string, opts []core.CallOption, bodyLimit int64) httprule.Settings {
	return httprule.Settings{
		Package: "lockecho", Engine: eng, Template: template, Key: ofContext(key), Options: opts, BodyLimit: bodyLimit,
	}
}

// ofContext turns a function of Echo's context into one of the exchange. nil stays nil.
func ofContext(f func(echo.Context) string) func(httprule.Exchange) string {
	if f == nil {
		return nil
	}
	return func(x httprule.Exchange) string { return f(x.(*exchange).c) }
}

func must(m echo.MiddlewareFunc, err error) echo.MiddlewareFunc {
	if err != nil {
		panic(err)
	}
	return m
}
