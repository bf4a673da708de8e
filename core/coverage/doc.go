// Package coverage reports which rules guard what. Each middleware lists its targets with
// their rules (a gRPC method, a route, a task type, a function), those without a rule as
// well. So a target that was forgotten shows at start, or in a test, and not in production:
//
//	coverage.Log(ctx, nil, locks.Coverage(server))
//
// All functions are safe for concurrent use.
package coverage
