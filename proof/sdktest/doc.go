// Package sdktest has only tests. They use tracing as a program does: with OpenTelemetry's SDK,
// its instrumentation of gRPC, Echo and net/http, and a real asynq server and Redis.
package sdktest
