package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
)

// Locks makes middleware over one engine, to stand around the handlers of the
// routes:
//
//	locks := lockhttp.New(eng)
//	mux.Handle("PUT /users/{id}/status", locks.Serialize("user:status:{path.id}")(setStatus))
//
// Its methods panic on what can't work (no engine, a template that does not
// parse or names an unknown source, an option out of range, what the store
// can't do), with all of it in one error, as net/http's mux does on patterns:
// routes are set up before the first request. [SerializeConfig], [OnceConfig]
// and [IdempotencyConfig] have more settings, and a form that returns the
// error.
type Locks struct {
	engine *core.Engine
}

// New makes rules over eng for routes. It does no I/O.
func New(eng *core.Engine) *Locks { return &Locks{engine: eng} }

// Serialize runs the requests of a route one at a time per key. The package's
// documentation lists the placeholders that the template may have.
//
// Options are the rule's policy, such as core.WithMaxWait, core.WithFailFast,
// core.WithTTL, core.WithMaxHold and core.WithRunUnlocked; where there are none
// the engine's defaults count.
// core.WithShared and core.WithPermits have the key shared with others, and
// core.WithHierarchy takes "/" in the template for a separator of levels, as in
// "group:{path.group}/member:{path.member}".
func (l *Locks) Serialize(template string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(SerializeConfig{Engine: l.engine, Template: template, Options: opts}.ToMiddleware())
}

// SerializeBy is [Locks.Serialize] with a function that makes the key, for what
// a template can't say.
//
// The key that key returns is used as it is: keytmpl.Escape keeps the parts of
// a composed one apart. "" and everything else that driver.ValidateKey refuses is
// the caller's error, 400. key may read the request's body, up to the limit;
// the handler reads it again from its beginning. It is called from many
// goroutines.
//
// Hooks (observe.Hooks) know a rule by its template; core.WithRule gives one with a
// function a name of its own.
func (l *Locks) SerializeBy(key func(*http.Request) string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(SerializeConfig{Engine: l.engine, Key: key, Options: opts}.ToMiddleware())
}

// Once has requests that render the same key be processed once: while the first
// runs, the others wait for it (or are refused, with core.WithFailFast); after
// it they get its response, for as long as core.WithRetention says, with the
// header [ReplayedHeader]. The package's documentation says which responses are
// kept.
//
// A repeat with other content is refused, unless core.WithoutFingerprint says
// that content does not matter.
//
// The key decides who gets whose response: put the caller into it when two
// callers can come with the same id. [Locks.Idempotency] does so. Keys of Once
// and Serialize are the same locks: give them different first words.
func (l *Locks) Once(template string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(OnceConfig{Engine: l.engine, Template: template, Options: opts}.ToMiddleware())
}

// OnceBy is [Locks.Once] with a function that makes the key; see
// [Locks.SerializeBy].
func (l *Locks) OnceBy(key func(*http.Request) string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(OnceConfig{Engine: l.engine, Key: key, Options: opts}.ToMiddleware())
}

func must(m func(http.Handler) http.Handler, err error) func(http.Handler) http.Handler {
	if err != nil {
		panic(err)
	}
	return m
}
