// Package lockhttp (not http, which its users import, too) runs the requests of net/http handlers
// one at a time per key, or once per key, in all processes that share the engine's store.
//
//	locks, err := lockhttp.New(eng,
//		lockhttp.Serialize("PUT /users/{id}/status", "user:status:{path.id}", core.WithMaxWait(2*time.Second)),
//		lockhttp.Idempotency("POST /payments", account),
//	)
//	...
//	routes := locks.Routes(mux)
//	routes.HandleFunc("PUT /users/{id}/status", setStatus)
//	routes.HandleFunc("POST /payments", pay)
//	...
//	err = routes.Check()
//
// Packages lockecho and lockgin put the same rules around routes of Echo and gin.
//
// # Keys
//
// A template is text with placeholders, as package keytmpl describes. Their values come from
//
//	{path.id}           Request.PathValue; one that the route lacks is an error
//	                    of the service: 500, and in the log
//	{query.q}           a parameter of the query
//	{header.x-tenant}   a header
//	{form.x}            a field of a form, as Request.FormValue finds it
//	{body.user.id}      a member of a JSON body; numbers as they are written
//	{body}              the body as it came, mostly as {body|hash}
//
// [*] makes a key of each value, all taken together: {query.id[*]}, {body.members[*].id}. The
// engine's store has to support sets.
//
// Values are compared as text: 5, 5.0 and "5e0" are three keys, "Ann" and "ann" are two, and so
// is "é" typed as one character or as two. Use filters if clients or gateways may write the
// same value in different ways. They make one spelling, in order and before a digest:
// {body.id|int}, {body.name|lower}, {body.name|lower|hash}; see keytmpl. Once still compares
// content byte by byte, so such a repeat is refused, unless the options have
// core.WithoutFingerprint.
//
// These are the caller's error, 400: a value that is missing or empty, a value that the request
// has twice where one is meant, and values that make too long a key. Of a member that a JSON object
// has twice, the last one counts, as in encoding/json. The handler reads a body that the rule has
// read again, from its beginning.
//
// # Routers
//
// A rule belongs to a route, and [Locks.Middleware] finds it by Request.Pattern. So put the middleware
// behind the router, around the handlers of routes. ServeMux and chi set the pattern and the path
// values. (With chi, use With: behind Use no route is known yet. A rule for a route of a sub-router
// has the whole route, with the path where the sub-router is mounted, as chi.Walk shows it: "PUT /orders/", with
// the slash, for Put("/") below "/orders". If a path has empty or dotted levels, which chi may leave out, it
// gets the rules of all routes that may be meant.) For another router, write a few lines before the
// middleware that set Request.Pattern and call Request.SetPathValue for each parameter. A value is taken
// as the router gives it. chi, for example, does not decode %34%32 to 42. The handler then sees two names
// of one thing, and they are two locks.
//
// A framework with handlers of its own is an http.Handler as a whole. A mux in front of it has the
// routes with rules:
//
//	mux.Handle("PUT /users/{id}/status", locks.Middleware(engine))
//	mux.Handle("/", engine)
//
// # What the handler sees
//
// The request's context is the lease's: core.LeaseFrom finds the lease and its fencing token
// there, and it ends if the lease is lost. The lock is held until the handler returns, even if
// the client hangs up before. http.TimeoutHandler ends a request while its handler still runs.
// Put it around this middleware. Inside, it would release the lock as well.
//
// The response is kept back until the lock is released. Only then is it known that the lease
// was good to the end. If it was not, the client gets 409 and not the handler's response, even
// if that was a success. A response that is sent at once is broken off after a loss, so that no
// client takes a part for the whole. (A response of which the last byte of its Content-Length
// was sent cannot be broken off any more.) A handler that takes over the connection has it.
//
// # Slow clients
//
// A slow client keeps no key. The request's body is read to its end before the key is asked
// for, and the response is sent after the lock was released. Of each, 64 KiB are kept in memory
// and the rest in a temporary file, in the directory that TMPDIR names. The files of a process
// have at most 1 GiB together. They have no name, if the system can unlink open files.
//
//	body over the limit (BodyLimit)       413, before the key is asked for
//	body that breaks off                  400, the same
//	body later than ReadTimeout           408, the same
//	no room for the temporary file        503, the same; and in the log
//	response over 64 MiB, or no room      sent as it comes, with the key; see below
//
// Three kinds of response cannot wait: one that the handler flushes, a stream of events
// (text/event-stream), and a connection that the handler takes over. They are sent while the
// lock is held, so a client can keep the key by not reading. Its connection is broken off if it
// takes longer than 30 seconds for 32 KiB. If the server has a WriteTimeout or the handler sets
// a write deadline, that counts instead (a deadline that was set before the rule is removed). A
// client that is just fast enough holds the key to the end of the response; core.WithMaxHold
// bounds that.
//
// StreamBody leaves the body to the handler. Use it if the body is too large to be kept, or if
// the handler answers in between, as over HTTP/2. The client can then keep the key by not
// sending.
//
// Slow clients still keep connections and files: set ReadTimeout and WriteTimeout of the
// http.Server. WriteTimeout counts from the request's header. So it has to be longer than the
// body, the wait for the lock, the handler and the response take together. If a server with a
// rule has neither, slog.Default() gets a warning, once per process.
//
// # Once
//
// The first request with a key is processed, and its response is stored: status, body, and the
// headers and trailers that [Rule.StoredHeaders] names. Repeats get the same response, with
// [ReplayedHeader]. A request that differs from the first in method, path, query or body is
// refused with 422. Other headers do not count.
//
// Responses that delay the work, such as 429, or ask for credentials, and all from 500 on are
// not stored ([DefaultStorable]; [Rule.Storable] can decide by the body, for errors sent as 200).
// After these a repeat runs the handler again. A panic stores
// nothing either.
//
// A response over the limit, or one that took over the connection, reaches its client. The
// record then only says that the request was processed, and a repeat gets 409 with the reason
// RESULT_NOT_KEPT. So it does if nobody knows whether the response is whole: the request's context
// had ended when the handler returned, its Content-Length was another one, or a part could not be
// sent. A middleware in front of the rule that sets context.WithoutCancel lets handlers finish after
// their clients have hung up, and keeps what they answer.
//
// The effect and the record are two steps. After a crash between them, a repeat runs the
// handler again. With fence.WithDatabase among the rule's options they are one step, in a
// transaction that the handler gets from its context (fence.TxFrom): exactly one effect. A
// response that is not stored rolls it back, and so does a client that hangs up before.
//
// # Idempotency-Key
//
// [Idempotency] is Once for clients that mark their requests with the header of
// draft-ietf-httpapi-idempotency-key-header:
//
//	lockhttp.Idempotency("POST /payments", user)
//
// The header has one string of a structured field (RFC 9651), such as
// "8e03978e-40d5-43dd-bc93-6894a57f9324" with the quotes, of at most 255 bytes. Without quotes,
// as many clients send it, it is the same key. Anything else (several lines, a list,
// parameters) is refused with 400. So is a request without the header, unless
// [Rule.Optional] says so. Without a method in its route, the rule applies only to POST and PATCH.
//
// The record belongs to the caller, the method and the route. The route is its pattern, with
// the prefix where its router is mounted. Without a pattern, as in front of the router, or with
// the pattern "/", it is the path. Within these, a key stands for one request: a repeat with
// another path, query or body is refused with 422. A repeat during the first request gets 409
// at once. Everything else is as in Once.
//
// # Requests to other services
//
// A handler that sends a request to another service, or to its own, waits for itself if the
// handler there takes the same key. Package httpcarry (experimental) lets that handler run
// under the caller's lease instead. A request for a key that its caller holds in another mode,
// or for Once, is answered with 500, because it could never get its turn.
//
// # Which routes have a rule
//
// A request without a rule passes, so a misspelt route would lock nothing. [Locks.Check] finds a rule
// without a route, and a {path.name} that the route does not have: such a rule refuses every request.
// A mux cannot list its routes, so [Locks.Routes] adds them and remembers them. For a router that can,
// such as chi with Walk, pass the list. Log [Locks.Coverage] at start with coverage.Log. In a test,
// coverage.Uncovered fails if somebody adds a route and forgets its rule. A handler that must never
// run unlocked can ask core.AssertHeld.
//
// # Who may queue
//
// A rule runs before the handler's own checks. Without a precheck, anybody who may send a request can
// queue for any key, which delays those who may change it, and whoever knows a key of Once gets its
// stored response. So put authentication in front of the rule, and give it a Precheck if not every
// caller may have every key. It runs before the lock is asked for, and again before a replay.
//
// # What a conflict answers
//
//	waited too long, or WithFailFast      409  WAIT_TIMEOUT, LOCK_HELD
//	too many requests wait                429  TOO_MANY_WAITERS
//	Once: the first is still running      409  WAIT_TIMEOUT, LOCK_HELD
//	Once: processed before                the stored response, Idempotent-Replayed: true
//	Once: processed, response not kept    409  RESULT_NOT_KEPT
//	Once: same key, other content         422  FINGERPRINT_MISMATCH
//	key missing or invalid, broken body   400  KEY_INVALID
//	the precheck refused                  403  FORBIDDEN
//	body too long, or not sent as JSON    413  BODY_TOO_LARGE, 415 MEDIA_TYPE
//	body not in time, no room for it      408  BODY_TIMEOUT, 503 SPOOL_UNAVAILABLE
//	store down, engine closed             503  STORE_UNAVAILABLE, STOPPING
//	Once: record uncertain                503  OUTCOME_UNKNOWN
//	Once: rolled back in the database     409  ROLLED_BACK
//	lease lost while running              409  LEASE_LOST, or the connection ends
//	the client hung up while waiting      499  CANCELED, for those who log
//	the request's deadline while waiting  503  DEADLINE_EXCEEDED
//
// The body is problem details (RFC 9457), with the member "reason" for programs. If a repeat
// makes sense, Retry-After says when, from how long locks are held. No answer tells who has the
// lock. The error that an [ErrorHandler] gets does. The reasons are those of lockgrpc. An
// ErrorHandler can answer differently, and use [ProblemOf].
package lockhttp
