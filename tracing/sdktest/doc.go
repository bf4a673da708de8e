// Package sdktest has no code but tests: tracing as a program has it, with
// OpenTelemetry's SDK, its instrumentation of gRPC, Echo and net/http, and a
// real asynq server and Redis. It is a module of its own, because the SDK must
// not raise the versions of those who use keyturn.
package sdktest
