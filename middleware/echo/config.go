package lockecho

import (
	"errors"
	"fmt"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// DefaultBodyLimit is how many bytes of a request's body are read, unless a
// config says otherwise, when the key or the fingerprint comes from it.
const DefaultBodyLimit = 1 << 20

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
	// BodyLimit is how many bytes of the body may be read for the key; more is
	// answered with 413. 0: [DefaultBodyLimit]. Bodies that the key does not
	// come from are neither read nor limited.
	BodyLimit int64
}

// SerializeWithConfig is [Locks.Serialize] with all its settings. It panics
// where ToMiddleware returns an error.
func SerializeWithConfig(config SerializeConfig) echo.MiddlewareFunc {
	return must(config.ToMiddleware())
}

// ToMiddleware checks the config, all of it, and makes the middleware. The
// error joins all that is wrong.
func (config SerializeConfig) ToMiddleware() (echo.MiddlewareFunc, error) {
	g, err := newGuard(config.Engine, rule.Spec[*request]{
		Name: "lockecho.Serialize", Template: config.Template, Options: config.Options,
	}, config.Key, config.BodyLimit)
	if err != nil {
		return nil, fmt.Errorf("lockecho: %w", err)
	}
	return g.wrap(config.Skipper, config.ErrorHandler, g.serialize), nil
}

// OnceConfig is what there is to say about requests that are processed once.
// Its first fields are those of [SerializeConfig]. Once reads the whole body,
// for the fingerprint, so BodyLimit is that of the route.
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
	// get 409. 0: core.DefaultResultLimit. It stands in for
	// core.WithResultLimit, which does nothing here: past the engine's limit
	// nothing at all would be on record, and a repeat would run.
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
	var errs []error
	g, err := newGuard(config.Engine, rule.Spec[*request]{
		Name: "lockecho.Once", Template: config.Template, Once: true, Options: config.Options,
	}, config.Key, config.BodyLimit)
	if err != nil {
		errs = append(errs, err)
	}
	if config.ResultLimit < 0 {
		errs = append(errs, &core.OptionError{Option: "ResultLimit", Value: config.ResultLimit, Want: "0 or more"})
	}
	headers, err := storedHeaders(config.Headers)
	if err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lockecho: %w", err)
	}
	o := &once{guard: g, resultLimit: config.ResultLimit, headers: headers, storable: config.Storable}
	if o.resultLimit == 0 {
		o.resultLimit = core.DefaultResultLimit
	}
	if o.storable == nil {
		o.storable = DefaultStorable
	}
	return g.wrap(config.Skipper, config.ErrorHandler, o.serve), nil
}

// newGuard checks what both kinds of rule have in common.
func newGuard(eng *core.Engine, spec rule.Spec[*request], key func(echo.Context) string, bodyLimit int64) (*guard, error) {
	var errs []error
	switch {
	case key != nil && spec.Template != "":
		errs = append(errs, errors.New("both a template and a key function: want one of them"))
	case key != nil:
		spec.Key = func(r *request) (string, error) { return r.keyBy(key) }
	case spec.Template == "":
		errs = append(errs, errors.New("neither a template nor a key function"))
		spec.Template = "-" // or Compile would say it again, in other words
	default:
		// What is locked is the best name for a rule whose route can't be known.
		spec.Name = spec.Template
	}
	if bodyLimit < 0 {
		errs = append(errs, &core.OptionError{Option: "BodyLimit", Value: bodyLimit, Want: "0 or more"})
	}
	compiled, err := rule.Compile(eng, spec, bind)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if bodyLimit == 0 {
		bodyLimit = DefaultBodyLimit
	}
	return &guard{rule: compiled, bodyLimit: bodyLimit}, nil
}

func must(m echo.MiddlewareFunc, err error) echo.MiddlewareFunc {
	if err != nil {
		panic(err)
	}
	return m
}
