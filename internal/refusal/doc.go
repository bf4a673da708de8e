// Package refusal says why a request was not processed under its lock. It sorts the errors of
// package core into a few kinds. Each kind has the reason for clients, whether a
// repeat is safe, and whether the handler ran. The middlewares and package tracing each have a
// table with one row for each kind, and a test that no row is missing. So a new answer begins
// here, with a new Kind. The package knows nothing of gRPC, HTTP, asynq or OpenTelemetry.
package refusal
