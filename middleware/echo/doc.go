// Package lockecho (not echo, which its users import, too) runs the requests of Echo routes one at
// a time per key, or once per key, in all processes that share the engine's store.
//
//	locks, err := lockecho.New(eng,
//		lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}", core.WithMaxWait(2*time.Second)),
//		lockhttp.Once("POST /messages", "post:{body.id}"),
//	)
//	...
//	e.Use(authenticate, locks.Middleware)
//	e.PUT("/users/:id/status", setStatus)
//	e.POST("/messages", receive)
//	...
//	err = locks.Check(e)
//
// Rules, templates, options and answers are those of package lockhttp. A route is written as in Echo, and
// {path.id} is a parameter of it. A key function, a caller and a precheck find Echo's context by
// [Context]. [Locks.Middleware] may also stand at a group or at a route.
//
// # What the handler sees
//
// The context of c.Request() is the lease's: core.LeaseFrom finds the lease and its fencing
// token there, and it ends if the lease is lost. The lock is held until the handler returns,
// even if the client hangs up before. Echo's ContextTimeout may be on either side of this
// middleware. Echo's deprecated Timeout ends a request while its handler still runs. Inside
// this middleware it would release the lock as well.
//
// The handler has a response of its own, which is kept back until the lock is released, as lockhttp
// says. An error that the handler returns is answered by Echo's HTTPErrorHandler, under the lock, so
// that the rule can see the answer: Once stores it, and a lost lease replaces it. Outer middleware gets the
// error, too. What Echo's HTTPErrorHandler leaves unanswered is not stored.
//
// # What a conflict answers
//
// The table is lockhttp's. The middleware returns an *echo.HTTPError around the refusal, for outer
// middleware that logs. Two cases are answered by Echo's HTTPErrorHandler: a request that was canceled
// while it waited, 499, and one whose deadline was over, 503.
package lockecho
