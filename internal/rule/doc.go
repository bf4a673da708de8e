// Package rule is the part of a rule that all middlewares share: a key template or a key
// function, bound to the requests of one framework, with a checked policy. The middlewares
// differ in where values come from and in how a refusal is answered.
package rule
