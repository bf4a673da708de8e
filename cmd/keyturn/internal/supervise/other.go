//go:build !unix

package supervise

// IsGuard reports false: without process groups there is nothing to guard.
func IsGuard() bool { return false }

// Guard does nothing.
func Guard() int { return 0 }
