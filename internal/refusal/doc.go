// Package refusal says why a request was not processed under its lock. It sorts the errors of
// package core into a few kinds. Each kind has the reason for clients, whether a
// repeat is safe, and whether the handler ran. The middlewares, tracing and counters have a
// table with one row for each kind, and a test that misses no row. So a new answer begins
// here, with a new Kind. The package knows nothing of gRPC, HTTP, asynq or OpenTelemetry.
//
// What they answer is in the doc.go of each, in a table.
//
// No answer tells the caller who holds the lock. A rule can say that an outage runs the
// handler unlocked (WithRunUnlocked). The default never does, and nothing ever runs unlocked
// after a timeout.
package refusal
