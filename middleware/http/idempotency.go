package lockhttp

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
)

// Idempotency processes requests with the same Idempotency-Key once, as in
// draft-ietf-httpapi-idempotency-key-header. The package's documentation says more.
// [IdempotencyConfig] has all settings.
//
// caller returns who sends a request, such as the user whom an earlier middleware has
// authenticated. So two callers with the same key do not get each other's responses. "" refuses
// the request. If a service cannot tell its callers apart, use [AnyCaller].
//
// opts are the rule's policy. A repeat during the first request is refused at once, unless opts
// has core.WithMaxWait.
func (l *Locks) Idempotency(caller func(*http.Request) string, opts ...core.CallOption) func(http.Handler) http.Handler {
	return must(IdempotencyConfig{Engine: l.engine, ErrorHandler: l.refuse, Caller: caller, Options: opts}.ToMiddleware())
}

// AnyCaller treats all callers as one: everybody who knows an idempotency key gets the stored
// response. It is for services with a single client, or whose responses everybody may see.
func AnyCaller(*http.Request) string { return "anyone" }

// IdempotencyConfig configures a rule for requests with an idempotency key. Engine and Caller
// are required; all other fields have defaults. Fields of [OnceConfig] have the same meaning
// here.
type IdempotencyConfig struct {
	Engine *core.Engine
	// Caller returns who sends a request; see [Locks.Idempotency].
	Caller  func(*http.Request) string
	Options []core.CallOption

	// Header is the name of the header with the key. "": Idempotency-Key.
	Header string
	// Methods are the methods that the rule applies to; other requests skip it. nil: POST and
	// PATCH, because the other methods are idempotent by themselves, or change nothing.
	Methods []string
	// Optional lets requests without the header skip the rule, so they may be processed twice.
	// By default they are refused with 400.
	Optional bool

	Skipper      func(*http.Request) bool
	Precheck     func(*http.Request) error
	ErrorHandler ErrorHandler
	BodyLimit    int64
	ResultLimit  int
	Headers      []string
	Storable     func(Response) bool
}

// ToMiddleware checks the config and makes the middleware. The error joins everything that is
// wrong, and matches core.ErrInvalidOption or errors.ErrUnsupported if an option is.
func (config IdempotencyConfig) ToMiddleware() (func(http.Handler) http.Handler, error) {
	r, err := httprule.Idempotency(
		settings(config.Engine, "", nil, config.Precheck, config.Options, config.BodyLimit),
		httprule.Memory{ResultLimit: config.ResultLimit, Headers: config.Headers, Storable: config.Storable},
		httprule.Idempotent{Caller: ofRequest(config.Caller), Header: config.Header, Methods: config.Methods, Optional: config.Optional},
	)
	return middleware(r, err, config.Skipper, config.ErrorHandler)
}
