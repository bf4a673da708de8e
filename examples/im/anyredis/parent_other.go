//go:build !linux

package anyredis

import "os/exec"

// endWithParent does nothing where the kernel has no such thing.
func endWithParent(*exec.Cmd) {}
