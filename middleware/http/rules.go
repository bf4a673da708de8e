package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
)

// Locks makes middleware over one engine, for the handlers of routes:
//
//	locks := lockhttp.New(eng)
//	mux.Handle("PUT /users/{id}/status", locks.Serialize("user:status:{path.id}")(setStatus))
//
// Its methods panic if the rule is wrong, as net/http's mux does with patterns, because routes
// are set up before the first request. Wrong are a nil engine, a template that does not parse
// or names an unknown source, an option out of range, and a rule that the store does not
// support. The panic's error joins everything that is wrong. [SerializeConfig], [OnceConfig]
// and [IdempotencyConfig] have more settings, and a form that returns the error. Locks is safe
// for concurrent use.
type Locks struct {
	engine *core.Engine
	refuse ErrorHandler
}

// New makes Locks over eng. It does no I/O.
func New(eng *core.Engine) *Locks { return &Locks{engine: eng} }

// WithErrorHandler returns Locks whose rules answer refusals by h, unless their config has another
// one. nil: [DefaultErrorHandler].
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks { return &Locks{engine: l.engine, refuse: h} }

// Serialize runs the requests of a route one at a time per key. The package's documentation
// lists the placeholders that the template may have.
//
// opts are the rule's policy, such as core.WithMaxWait, core.WithFailFast, core.WithTTL,
// core.WithMaxHold and core.WithRunUnlocked. For everything else the engine's settings count.
// With core.WithShared or core.WithPermits, requests share the key. With core.WithHierarchy, a
// "/" in the template separates levels, as in "group:{path.group}/member:{path.member}".
func (l *Locks) Serialize(template string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(SerializeConfig{Engine: l.engine, ErrorHandler: l.refuse, Template: template, Options: opts}.ToMiddleware())
}

// SerializeBy is [Locks.Serialize] with a function that makes the key, for keys that a template
// cannot express.
//
// The result of key is used unchanged; keytmpl.Escape keeps the parts of a composed key apart.
// A key that driver.ValidateKey refuses, such as "", is the caller's error, 400. key may read
// the request's body, up to the limit; the handler reads it again from its beginning. key is
// called from many goroutines.
//
// Hooks (observe.Hooks) know a rule by its template. core.WithRule gives a name to a rule with
// a function.
func (l *Locks) SerializeBy(key func(*http.Request) string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(SerializeConfig{Engine: l.engine, ErrorHandler: l.refuse, Key: key, Options: opts}.ToMiddleware())
}

// SerializeKeys is [Locks.SerializeBy] for a function that returns all keys of a request. They are
// taken together, as one set. The order does not matter, and a key may be there twice. No key is the
// caller's error, 400. An error of keys is the server's, 500.
func (l *Locks) SerializeKeys(keys func(*http.Request) ([]string, error), opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(SerializeConfig{Engine: l.engine, ErrorHandler: l.refuse, Keys: keys, Options: opts}.ToMiddleware())
}

// Once processes requests with the same key once. While the first runs, the others wait for it,
// or are refused with core.WithFailFast. After it they get its response, for
// core.WithRetention, with the header [ReplayedHeader]. The package's documentation says which
// responses are kept.
//
// A repeat with other content is refused, unless opts has core.WithoutFingerprint.
//
// The key decides which caller gets which response. Put the caller into it if two callers may
// use the same id. [Locks.Idempotency] does so. Once and Serialize share one set of locks, so
// begin their keys with different words.
func (l *Locks) Once(template string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(OnceConfig{Engine: l.engine, ErrorHandler: l.refuse, Template: template, Options: opts}.ToMiddleware())
}

// OnceBy is [Locks.Once] with a function that makes the key; see
// [Locks.SerializeBy].
func (l *Locks) OnceBy(key func(*http.Request) string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(OnceConfig{Engine: l.engine, ErrorHandler: l.refuse, Key: key, Options: opts}.ToMiddleware())
}

func must(m func(http.Handler) http.Handler, err error) func(http.Handler) http.Handler {
	if err != nil {
		panic(err)
	}
	return m
}
