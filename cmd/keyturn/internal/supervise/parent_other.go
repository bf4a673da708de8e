//go:build unix && !linux

package supervise

import "syscall"

// adoptOrphans does nothing: orphans get to process 1 here, and their group tells when they are gone.
func adoptOrphans() {}

// parentDeath does nothing: the kernel can't do it, so the guard alone does.
func parentDeath(*syscall.SysProcAttr) {}
