// Package lockgin puts the rules of package lockhttp around routes of gin.
//
//	router := gin.New()
//	router.ContextWithFallback = true
//	guard, err := lockgin.New(router)
//	...
//	locks := lockhttp.New(eng)
//	router.PUT("/users/:id/status", guard(locks.Serialize("user:status:{path.id}")), setStatus)
//	router.POST("/payments", guard(locks.Idempotency(account)), pay)
//
// Rules, templates, options and answers are those of lockhttp: {path.id} is a parameter of gin's
// route. A guard takes any other middleware of net/http, too.
//
// # What the handler sees
//
// The context of c.Request is the lease's: core.LeaseFrom finds the lease and its fencing token
// there, and it ends if the lease is lost. So is c itself, which many handlers pass on as a context.
// That needs ContextWithFallback, without which c is a context that has no values of its request
// and never ends; so [New] refuses a router that lacks it.
//
// The response is kept back until the lock is released, as lockhttp says. What is outside of the
// guard, such as gin's logger, sees the status that was sent. What is inside sees what the handler
// wrote.
//
// Put guards inside of middleware that authenticates, logs or recovers, and outside of what belongs to
// the work. gin's Recovery swallows the panic by which net/http breaks off a response over HTTP/2.
// The guard has the stream reset all the same, so that nobody takes a part for the whole.
package lockgin
