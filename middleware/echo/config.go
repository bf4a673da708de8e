package lockecho

import (
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// ErrorHandler answers a request whose handler did not run, or whose response must not be sent
// because its lease was lost. See [SerializeConfig].
type ErrorHandler func(c echo.Context, refused *reasons.Refusal) error

// SerializeConfig has all settings of a rule that runs requests one at a time per key. Engine
// and one of Template and Key are required. The zero values of the others are the defaults.
type SerializeConfig struct {
	// Engine takes the locks.
	Engine *core.Engine
	// Template, Key or Keys says where the keys come from, as in [Locks.Serialize],
	// [Locks.SerializeBy] and [Locks.SerializeKeys]. Set exactly one.
	Template string
	Key      func(echo.Context) string
	Keys     func(echo.Context) ([]string, error)
	// Options are the rule's policy.
	Options []core.CallOption

	// Skipper returns true for requests that pass without a lock. Nil: none does.
	Skipper middleware.Skipper
	// Precheck refuses requests before they ask for the lock: whoever may not do what the handler
	// does must not queue for its key, or get a stored response. It runs again before a replay. Its
	// error is answered with 403, or by the ErrorHandler. It must not wait for locks. Nil: none.
	Precheck func(echo.Context) error
	// ErrorHandler answers refusals. It gets the reason, the rule, the key and when to come
	// again; [ProblemOf] says what the default answer is. nil: [DefaultErrorHandler].
	//
	// It is not called if a part of the response has been sent. Then the connection ends,
	// without an answer.
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

// SerializeWithConfig is [Locks.Serialize] with all its settings. It panics if ToMiddleware
// returns an error.
func SerializeWithConfig(config SerializeConfig) echo.MiddlewareFunc {
	return must(config.ToMiddleware())
}

// ToMiddleware checks the config and makes the middleware. The error joins everything that is
// wrong. It does no I/O.
func (config SerializeConfig) ToMiddleware() (echo.MiddlewareFunc, error) {
	s := settings(config.Engine, config.Template, config.Key, config.Precheck, config.Options, config.BodyLimit)
	s.StreamBody = config.StreamBody
	if config.Keys != nil {
		s.Keys = func(x httprule.Exchange) ([]string, error) { return config.Keys(x.(*exchange).c) }
	}
	r, err := httprule.Serialize(s)
	return middlewareOf(r, err, config.Skipper, config.ErrorHandler)
}

// Response is what a handler has answered: see lockhttp.Response.
type Response = httprule.Response

// OnceConfig has all settings of a rule that processes requests once. The fields up to BodyLimit
// are those of [SerializeConfig], except that a BodyLimit of 0 is always 1 MiB: Once reads the
// whole body for the fingerprint.
type OnceConfig struct {
	Engine   *core.Engine
	Template string
	Key      func(echo.Context) string
	Options  []core.CallOption

	Skipper      middleware.Skipper
	Precheck     func(echo.Context) error
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
	// lockhttp.DefaultStorable, by the status alone.
	Storable func(Response) bool
}

// OnceWithConfig is [Locks.Once] with all its settings. It panics if ToMiddleware returns an
// error.
func OnceWithConfig(config OnceConfig) echo.MiddlewareFunc {
	return must(config.ToMiddleware())
}

// ToMiddleware checks the config and makes the middleware. The error joins everything that is
// wrong. It does no I/O.
func (config OnceConfig) ToMiddleware() (echo.MiddlewareFunc, error) {
	r, err := httprule.Once(
		settings(config.Engine, config.Template, config.Key, config.Precheck, config.Options, config.BodyLimit),
		httprule.Memory{ResultLimit: config.ResultLimit, Headers: config.Headers, Storable: config.Storable},
	)
	return middlewareOf(r, err, config.Skipper, config.ErrorHandler)
}

func settings(eng *core.Engine, template string, key func(echo.Context) string, precheck func(echo.Context) error, opts []core.CallOption, bodyLimit int64) httprule.Settings {
	s := httprule.Settings{
		Package: "lockecho", Engine: eng, Template: template, Key: ofContext(key), Options: opts, BodyLimit: bodyLimit,
	}
	if precheck != nil {
		s.Precheck = func(x httprule.Exchange) error { return precheck(x.(*exchange).c) }
	}
	return s
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
