// Package httprule applies a rule to an HTTP request, for lockhttp and lockecho. It knows where
// values come from, how a response is kept back until the lock is released, what is stored of a
// response, and how it comes back. lockhttp and lockecho contain only what differs: how their
// users write handlers, and how errors are answered.
package httprule
