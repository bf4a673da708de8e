package lockecho

import (
	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
)

// Locks makes middleware over one engine, to stand next to the handlers of the
// routes:
//
//	locks := lockecho.New(eng)
//	e.PUT("/users/:id/status", setStatus, locks.Serialize("user:status:{path.id}"))
//
// Its methods panic on what can't work (no engine, a template that does not
// parse or names an unknown source, an option out of range, what the store
// can't do), with all of it in one error, as Echo's own middleware does: routes
// are set up before the first request. [SerializeConfig] and [OnceConfig] have
// more settings, and a form that returns the error.
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
func (l *Locks) Serialize(template string, opts ...core.CallOption) echo.MiddlewareFunc {
	return SerializeWithConfig(SerializeConfig{Engine: l.engine, Template: template, Options: opts})
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
func (l *Locks) SerializeBy(key func(echo.Context) string, opts ...core.CallOption) echo.MiddlewareFunc {
	return SerializeWithConfig(SerializeConfig{Engine: l.engine, Key: key, Options: opts})
}

// Once has requests that render the same key be processed once: while the first
// runs, the others wait for it (or are refused, with core.WithFailFast); after
// it they get its response, for as long as core.WithRetention says, with the
// header lockhttp.ReplayedHeader. The package's documentation says which responses are
// kept.
//
// A repeat with other content is refused, unless core.WithoutFingerprint says
// that content does not matter.
//
// The key decides who gets whose response: put the caller into it when two
// callers can come with the same id, as in
// "pay:{header.x-account}:{header.idempotency-key}". Keys of Once and Serialize
// are the same locks: give them different first words.
func (l *Locks) Once(template string, opts ...core.CallOption) echo.MiddlewareFunc {
	return OnceWithConfig(OnceConfig{Engine: l.engine, Template: template, Options: opts})
}

// OnceBy is [Locks.Once] with a function that makes the key; see
// [Locks.SerializeBy].
func (l *Locks) OnceBy(key func(echo.Context) string, opts ...core.CallOption) echo.MiddlewareFunc {
	return OnceWithConfig(OnceConfig{Engine: l.engine, Key: key, Options: opts})
}
