// Package leveltest is a test of core.WithHierarchy that every middleware runs with its own
// kind of requests.
package leveltest
