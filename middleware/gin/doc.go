// Package lockgin (not gin, which its users import, too) puts the rules of package lockhttp around
// routes of gin.
//
//	locks, err := lockgin.New(eng,
//		lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"),
//		lockhttp.Idempotency("POST /payments", account),
//	)
//	...
//	router := gin.New()
//	router.ContextWithFallback = true
//	router.Use(authenticate, locks.Middleware)
//	router.PUT("/users/:id/status", setStatus)
//	...
//	err = locks.Check(router)
//
// Rules, templates, options and answers are those of lockhttp. A route is written as in gin, and {path.id}
// is a parameter of it. A key function finds gin's context by [Context].
//
// # What the handler sees
//
// The context of c.Request is the lease's: core.LeaseFrom finds the lease and its fencing token
// there, and it ends if the lease is lost. So is c itself, which many handlers pass on as a context.
// That needs ContextWithFallback, without which c is a context that has no values of its request
// and never ends; so [Locks.Check] refuses a router that lacks it, and requests panic.
//
// The response is kept back until the lock is released, as lockhttp says. What is outside of the
// middleware, such as gin's logger, sees the status that was sent. What is inside sees what the handler
// wrote.
//
// Put the middleware inside of those that authenticate, log or recover, and outside of what belongs to
// the work. gin's Recovery swallows the panic by which net/http breaks off a response over HTTP/2.
// The middleware has the stream reset all the same, so that nobody takes a part for the whole.
package lockgin
