//go:build unix

package sqltest

import (
	"errors"
	"os"
	"os/exec"
	osuser "os/user"
	"strconv"
	"syscall"
	"testing"
)

// user runs the servers. Nil is the one that runs the tests.
type user struct{ uid, gid int }

// serverUser returns the user of that name or, if there is none, nobody, if the tests run as root.
func serverUser(t testing.TB, name string) *user {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{name, "nobody"} {
		found, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, wrong := strconv.Atoi(found.Uid)
		gid, err := strconv.Atoi(found.Gid)
		if err := errors.Join(wrong, err); err != nil {
			t.Fatalf("sqltest: %v", err)
		}
		return &user{uid, gid}
	}
	t.Fatalf("sqltest: a database server refuses to run as root, and there is no user of %q", name)
	return nil
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
