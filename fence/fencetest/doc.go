// Package fencetest has no code but tests: package fence on real databases, at each isolation
// level, and behind each middleware whose process is killed. It is a module of its own, so that
// the root module needs no database driver.
package fencetest
