// Package fencetest has no code but tests: package fence on real databases, at each isolation
// level, and behind each middleware whose process is killed.
package fencetest
