package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
)

// Idempotency has requests with the same Idempotency-Key processed once, as
// draft-ietf-httpapi-idempotency-key-header describes it; the package's
// documentation says more. [IdempotencyConfig] has all its settings.
//
// caller says who sends a request, such as the user whom an earlier middleware
// has authenticated: two callers who choose the same key do not get each
// other's responses. "" refuses the request. A service whose callers are all
// the same to it says so with [AnyCaller].
//
// Options are the rule's policy. A repeat that comes while the first request is
// still running is refused at once, unless core.WithMaxWait is among them.
func (l *Locks) Idempotency(caller func(*http.Request) string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(IdempotencyConfig{Engine: l.engine, Caller: caller, Options: opts}.ToMiddleware())
}

// AnyCaller takes all callers for one: whoever knows an idempotency key gets
// the response that was given for it. For services with a single client, or
// without anything in a response that is not for everybody.
func AnyCaller(*http.Request) string { return "anyone" }

// IdempotencyConfig is what there is to say about requests that carry an
// idempotency key. The zero value lacks Engine and Caller; the rest has
// defaults. The fields that [OnceConfig] has mean the same here.
type IdempotencyConfig struct {
	Engine *core.Engine
	// Caller says who sends a request; see [Locks.Idempotency].
	Caller  func(*http.Request) string
	Options []core.CallOption

	// Header holds the key. "": Idempotency-Key.
	Header string
	// Methods are those that the rule applies to; others pass untouched. nil:
	// POST and PATCH, as the other methods are idempotent by themselves, or
	// change nothing.
	Methods []string
	// Optional lets requests without the header pass untouched, which may then
	// be processed twice. The default refuses them with 400.
	Optional bool

	Skipper      func(*http.Request) bool
	ErrorHandler ErrorHandler
	BodyLimit    int64
	ResultLimit  int
	Headers      []string
	Storable     func(status int) bool
}

// ToMiddleware checks the config, all of it, and makes the middleware. The
// error joins all that is wrong.
func (config IdempotencyConfig) ToMiddleware() (func(http.Handler) http.Handler, error) {
	r, err := httprule.Idempotency(
		settings(config.Engine, "", nil, config.Options, config.BodyLimit),
		httprule.Memory{ResultLimit: config.ResultLimit, Headers: config.Headers, Storable: config.Storable},
		httprule.Idempotent{Caller: ofRequest(config.Caller), Header: config.Header, Methods: config.Methods, Optional: config.Optional},
	)
	return middleware(r, err, config.Skipper, config.ErrorHandler)
}
