package ruletest

import (
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/http"
)

// Route is a route for all methods with one rule.
type Route struct {
	Pattern string                               // in the syntax of net/http; "": "/{id}"
	Handler http.HandlerFunc                     // nil: Done
	Outer   func(next http.Handler) http.Handler // is outside the rule; nil: nothing

	Engine     *core.Engine // nil: an engine over a store of its own
	Once       bool         // otherwise Serialize
	Template   string       // "": "k:{path.id}", unless there is a Key
	Key        func(*http.Request) string
	Options    []core.CallOption
	BodyLimit  int64
	StreamBody bool

	// For Once:
	ResultLimit int
	Headers     []string
	Storable    func(lockhttp.Response) bool
	Precheck    func(*http.Request) error

	HTTP2  bool
	Server func(*http.Server) // changes the server before it starts; nil: nothing
}

// Rule returns the route's rule, for whatever route it is put around.
func (r Route) Rule() lockhttp.Rule {
	const route = "*"
	opts := r.Options
	if r.ResultLimit > 0 {
		opts = append(slices.Clip(opts), core.WithResultLimit(r.ResultLimit))
	}
	var rule lockhttp.Rule
	switch {
	case r.Once && r.Key != nil:
		rule = lockhttp.OnceBy(route, r.Key, opts...)
	case r.Once:
		rule = lockhttp.Once(route, r.Template, opts...)
	case r.Key != nil:
		rule = lockhttp.SerializeBy(route, r.Key, opts...)
	default:
		rule = lockhttp.Serialize(route, r.Template, opts...)
	}
	if r.Headers != nil {
		rule = rule.StoredHeaders(r.Headers...)
	}
	if r.Storable != nil {
		rule = rule.Storable(r.Storable)
	}
	if r.StreamBody {
		rule = rule.StreamBody()
	}
	return rule.Precheck(r.Precheck).BodyLimit(r.BodyLimit)
}

// Middleware makes a middleware of rules for every route.
func Middleware(t testing.TB, eng *core.Engine, rules ...lockhttp.Rule) func(http.Handler) http.Handler {
	t.Helper()
	return Locks(t, eng, rules...).Middleware
}

// Locks makes Locks of rules.
func Locks(t testing.TB, eng *core.Engine, rules ...lockhttp.Rule) *lockhttp.Locks {
	t.Helper()
	locks, err := lockhttp.New(eng, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return locks
}

// Serve starts a server for h, which has the route.
func (r Route) Serve(t testing.TB, h http.Handler) *Site {
	t.Helper()
	if r.Server == nil {
		return Serve(t, h, r.HTTP2)
	}
	return Serve(t, h, r.HTTP2, r.Server)
}

// Face is how a middleware makes a Route. [Route.Pattern], [Route.Handler], [Route.Engine] and
// the source of the key are set. The site's Log has what the middleware logs about faults of
// its own server.
type Face func(testing.TB, Route) *Site

// Run runs all tests that the faces have in common.
func Run(t *testing.T, face Face) {
	if os.Getenv("TMPDIR") == "" {
		t.Setenv("TMPDIR", t.TempDir())
	}
	face = face.WithDefaults()
	for name, test := range map[string]func(*testing.T, Face){
		"Answers": Answers, "Keys": Keys, "BodiesThatAreGone": BodiesThatAreGone, "OneAtATime": OneAtATime,
		"HeldUntilTheHandlerReturns": HeldUntilTheHandlerReturns, "Panics": Panics,
		"LossBreaksWhatWasSent":         LossBreaksWhatWasSent,
		"NothingIsSentBeforeTheRelease": NothingIsSentBeforeTheRelease, "ImpossibleStatus": ImpossibleStatus,
		"Levels": Levels, "LateHeaders": LateHeaders, "StoredHeaders": StoredHeaders,
		"StoredResponses": StoredResponses, "WhatIsStored": WhatIsStored, "ResultLimits": ResultLimits,
		"Streams": Streams, "Prechecks": Prechecks, "PrecheckErrors": PrecheckErrors, "EarlyRelease": EarlyRelease, "ErrorsAs200": ErrorsAs200,
		"WholeAnswers": WholeAnswers, "CutStreams": CutStreams, "Twins": Twins, "Fingerprints": Fingerprints,
		"LossStoresNothing": LossStoresNothing, "SlowBodies": SlowBodies, "SlowReaders": SlowReaders,
		"BrokenBodies": BrokenBodies, "PanickingHandlers": PanickingHandlers, "Bodies": Bodies,
		"ExpectContinue": ExpectContinue, "StreamedBodies": StreamedBodies, "NoTemporaryFiles": NoTemporaryFiles,
		"AReaderLeftBehind": AReaderLeftBehind, "HugeAnswers": HugeAnswers, "TwoRules": TwoRules,
		"Shadows": Shadows, "ShadowsOfBodies": ShadowsOfBodies,
	} {
		t.Run(name, func(t *testing.T) { test(t, face) })
	}
}

// WithDefaults fills what a Route leaves open, as [Run] does.
func (face Face) WithDefaults() Face {
	return func(t testing.TB, r Route) *Site {
		t.Helper()
		if r.Pattern == "" {
			r.Pattern = "/{id}"
		}
		if r.Handler == nil {
			r.Handler = Done
		}
		if r.Engine == nil {
			r.Engine = NewEngine(t, NewStore())
		}
		if r.Template == "" && r.Key == nil {
			r.Template = "k:{path.id}"
		}
		return face(t, r)
	}
}

// Done answers with "done".
func Done(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, "done") }

func write(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// untilLost returns when the request's lease is lost, as if nothing were wrong.
func untilLost(w http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	Done(w, r)
}

// counted counts the calls of a handler.
func counted(n *atomic.Int64, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		next(w, r)
	}
}

// Replayed reports whether the answer comes from the record of an earlier one.
func (a Answer) Replayed() bool { return a.Header.Get("Idempotent-Replayed") == "true" }
