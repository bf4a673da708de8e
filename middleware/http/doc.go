// Package lockhttp runs the requests of net/http handlers one at a time per
// key, or once per key, across every process that shares the engine's store.
//
//	locks := lockhttp.New(eng)
//	setStatus = locks.Serialize("user:status:{path.id}", core.WithMaxWait(2*time.Second))(setStatus)
//	mux.Handle("PUT /users/{id}/status", setStatus)
//
// Package lockecho is the same for Echo.
//
// # Keys
//
// A template is text with placeholders, as package keytmpl describes. Their
// values come from
//
//	{path.id}           Request.PathValue; one that the route lacks is an error
//	                    of the service: 500, and in the log
//	{query.q}           a parameter of the query
//	{header.x-tenant}   a header
//	{form.x}            a field of a form, as Request.FormValue finds it
//	{body.user.id}      a member of a JSON body; numbers as they are written
//	{body}              the body as it came, mostly as {body|hash}
//
// [*] makes a key of each value, all taken together: {query.id[*]},
// {body.members[*].id}. The engine's store has to be able to do that.
//
// A value is the text as it came: 5, 5.0 and "5e0" are three keys, "Ann" and "ann"
// two, and so is "é" typed as one character or as two. Filters make one of them, in
// order and before a digest: {body.id|int}, {body.name|lower}, {body.name|lower|hash}; see
// keytmpl. Use them where clients or gateways may write the same value in different
// ways. Once compares content byte by byte all the same: such a repeat is refused,
// unless core.WithoutFingerprint is among the options.
//
// Values that are missing or empty, that stand in the request twice where one
// is meant, or that make too long a key are the caller's error: 400. A body
// that the rule has read is read again by the handler, from its beginning.
//
// # Routers
//
// The rule stands behind the router, around the handler of a route: in front of
// it no path value is known yet. ServeMux and chi set the values and the
// pattern. (Behind chi's Use no route is known either: the rule goes to With.) For
// another router, a few lines before the rule do the same, with
// Request.SetPathValue for each of its parameters and, for [Locks.Idempotency],
// Request.Pattern for the route. A value is taken as the router gives it: one
// that does not decode %34%32 to 42, as chi does not, shows the handler two
// names of one thing, and they are two locks.
//
// A framework whose handlers are not net/http's, such as gin, is an
// http.Handler as a whole, and a mux in front of it has the routes with rules:
//
//	mux.Handle("PUT /users/{id}/status", locks.Serialize("user:status:{path.id}")(engine))
//	mux.Handle("/", engine)
//
// Or a few lines make a rule a middleware of the framework's own; those for gin
// are in routertest/gin_test.go.
//
// # What the handler sees
//
// The request's context is the lease's: core.LeaseFrom finds the lease and its
// fencing token there, and it ends when the lease is lost. The lock is held
// until the handler returns, also when the client hangs up before.
// http.TimeoutHandler lets a request go while its handler still runs: around
// this middleware that is well, inside of it the lock would go with the request.
//
// The response is kept back until the lock is released: then it is known that the
// lease was good to the end. If it was not, the client gets 409 and not the
// handler's response, even if that was a success. What is sent as it comes is
// broken off after a loss, so that no client takes a part for the whole. (One that
// was already sent to the last byte of its Content-Length can't be broken any
// more.) A handler that takes over the connection has it.
//
// # Slow clients
//
// A client's speed does not keep a key. The request's body is read to its end
// before the key is asked for, and the response is sent after the lock was
// released. Of both, 64 KiB are kept in memory and the rest in a temporary file,
// in the directory that TMPDIR names. The files of a process together have at most
// 1 GiB; where files can be unlinked while they are open, they have no name.
//
//	body over the limit (BodyLimit)       413, before the key is asked for
//	body that breaks off                  400, the same
//	body later than ReadTimeout           408, the same
//	no room for the temporary file        503, the same; and in the log
//	response over 64 MiB, or no room      sent as it comes, with the key; see below
//
// A response that the handler flushes, a stream of events (text/event-stream) and
// a connection that it takes over can't wait. They are sent while the lock is
// held, so there a client keeps the key by not reading. It is broken off when it
// takes longer than 30 seconds for 32 KiB, unless the server has a WriteTimeout or
// the handler sets a write deadline (one that was set before the rule is taken
// away). A client that is just fast enough holds the key to the end of the
// response; core.WithMaxHold ends it.
//
// A body that has to be read as it comes, because it is too large or because the
// handler answers in between, as over HTTP/2, is left alone with StreamBody, and
// then its client keeps the key by not sending.
//
// Slow clients still keep connections and files: set ReadTimeout and WriteTimeout of
// the http.Server. WriteTimeout counts from the request's header, so it has to be
// longer than the body, the wait for the lock, the handler and the response take
// together. Where a rule meets a server that has neither, slog.Default() is told,
// once per process.
//
// # Once
//
// The first request with a key is processed, and its response stored: status,
// body, and the headers that [OnceConfig] names. Repeats get it again, with
// [ReplayedHeader]. Requests that differ from the first in method, path, query
// or body are refused with 422; other headers do not count.
//
// Not stored are responses that put the work off, such as 429, or ask for
// credentials, and all from 500 on ([DefaultStorable]): there a repeat runs the
// handler again. A panic stores nothing either.
//
// A response over the limit, or one that took over the connection, reaches its
// client; on record is only that the request was processed, and a repeat gets
// 409 with the reason RESULT_NOT_KEPT. A client that hangs up changes
// nothing: what the handler has done is recorded.
//
// The effect and the record are two steps, so a crash between them makes a
// repeat run the handler again; see core.Engine.Once.
//
// # Idempotency-Key
//
// [Locks.Idempotency] is Once for clients that mark their requests with the
// header of draft-ietf-httpapi-idempotency-key-header:
//
//	handler = authenticate(locks.Idempotency(user)(payments))
//
// The header holds one string of a structured field (RFC 9651), such as
// "8e03978e-40d5-43dd-bc93-6894a57f9324" with the quotes, of at most 255 bytes;
// without quotes, as many clients send it, it is the same key. Anything else
// (several lines, a list, parameters) is refused with 400, and so is a request
// without the header, unless [IdempotencyConfig] says that it is optional. Only
// POST and PATCH are looked at.
//
// The record belongs to the caller, the method and the route (its pattern, with
// the prefix where its router is mounted; where there is none, as in front of the
// router, or one that is just "/", the path).
// Within these a key stands for one request: a repeat with another path, query
// or body is refused with 422. One that comes while the first is still running
// gets 409 at once. All else is as in Once.
//
// # Requests to other services
//
// A handler that sends a request to another service, or to its own, waits for itself if the
// handler there takes the same key. Package httpcarry (experimental) lets that handler run
// under the caller's lease instead. A request for a key that its caller has in another mode,
// or for Once, is answered with 500: it could never get its turn.
//
// # Which routes have a rule
//
// A mux can't list its routes, so [Watch] adds them and remembers the rules of
// each: for a log at start (coverage.Log), and for a test that fails when
// somebody adds a route and forgets its rule (coverage.Uncovered). [Routes.Check]
// finds a {path.name} that the route does not have; such a rule refuses every
// request, so it counts as none and is logged as an error. [RuleOf] is for routers
// that can list theirs. A handler that must not run unlocked, whatever
// is around it, can ask core.AssertHeld.
//
// # What a conflict answers
//
//	waited too long, or WithFailFast      409  WAIT_TIMEOUT, LOCK_HELD
//	too many requests wait                429  TOO_MANY_WAITERS
//	Once: the first is still running      409  WAIT_TIMEOUT, LOCK_HELD
//	Once: processed before                the stored response, Idempotent-Replayed: true
//	Once: processed, response not kept    409  RESULT_NOT_KEPT
//	Once: same key, other content         422  FINGERPRINT_MISMATCH
//	key missing or invalid                400  KEY_INVALID
//	body over the limit, or not JSON      413  BODY_TOO_LARGE, 415 MEDIA_TYPE
//	body not in time, no room for it      408  BODY_TIMEOUT, 503 SPOOL_UNAVAILABLE
//	store down, engine closed             503  STORE_UNAVAILABLE, STOPPING
//	Once: record uncertain                503  OUTCOME_UNKNOWN
//	lease lost while running              409  LEASE_LOST, or the connection ends
//	the client hung up while waiting      499  CANCELED, for those who log
//	the request's deadline while waiting  503  DEADLINE_EXCEEDED
//
// The body is problem details (RFC 9457) with the member "reason" for programs;
// Retry-After says when to come again, from how long locks are held, wherever
// coming again makes sense. No answer tells who has the lock: that is in the
// error that an [ErrorHandler] is given. Package reasons has the reasons. An
// ErrorHandler can answer differently, and use [ProblemOf].
package lockhttp
