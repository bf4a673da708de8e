//go:build !unix

package supervise

// Helper reports false: without process groups there is nothing to guard.
func Helper() (status int, is bool) { return 0, false }
