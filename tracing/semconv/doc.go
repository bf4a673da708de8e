// Package semconv has the names that package tracing writes: of spans, events, attributes and
// metrics, and the values of attributes that have a fixed list. Use it in views, samplers and
// tests. docs/observability.md explains each name.
package semconv
