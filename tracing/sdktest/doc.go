// Package sdktest has only tests. They use tracing as a program does: with OpenTelemetry's SDK,
// its instrumentation of gRPC, Echo and net/http, and a real asynq server and Redis. It is a
// module of its own, because the SDK must not raise the versions of programs that use keyturn.
package sdktest
