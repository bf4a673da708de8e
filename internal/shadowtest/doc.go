// Package shadowtest is the conformance suite of rules with core.WithShadow. Each middleware runs it.
package shadowtest
