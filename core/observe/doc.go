// Package observe is what an engine tells those who watch it: traces, metrics, tests. It
// has the [Hooks] that core.WithHooks takes, and their arguments.
//
// A program that only takes locks does not need it.
package observe
