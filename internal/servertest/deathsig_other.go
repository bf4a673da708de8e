//go:build unix && !linux

package servertest

import "os/exec"

// DieWithParent does nothing on systems whose kernel cannot do this.
func DieWithParent(*exec.Cmd) {}
