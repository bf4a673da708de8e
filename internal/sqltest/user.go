//go:build unix

package sqltest

import (
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user runs the servers. Nil is the one that runs the tests.
type user struct{ uid, gid int }

// serverUser returns the first of the users that exists, if the tests run as root.
func serverUser(names ...string) (*user, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		found, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.Atoi(found.Gid)
		if err != nil {
			return nil, err
		}
		return &user{uid, gid}, nil
	}
	return nil, fmt.Errorf("a database server refuses to run as root, and there is no user of %q", names)
}

// own gives a file to the user.
func (u *user) own(path string) error {
	if u == nil {
		return nil
	}
	return os.Chown(path, u.uid, u.gid)
}

// as makes the user run cmd.
func (u *user) as(cmd *exec.Cmd) *exec.Cmd {
	if u != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}}
		// The directory of the tests may be closed to that user.
		cmd.Dir = "/"
	}
	return cmd
}
