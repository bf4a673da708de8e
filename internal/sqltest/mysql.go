package sqltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
)

// MySQL returns a new database on the MariaDB that all tests of this binary share. It is dropped
// when the test ends.
func MySQL(t testing.TB) *Database {
	t.Helper()
	return binary.mysql.started(t, "MariaDB", StartMySQL).Database(t)
}

// logSize is small, because all of the file is written when it is made.
const logSize = "--innodb-log-file-size=16M"

// StartMySQL runs a MariaDB until the test and its subtests end. settings are of the form
// "innodb_flush_log_at_trx_commit=2". The test fails at once if the program is missing or does not
// start.
func StartMySQL(t testing.TB, settings ...string) *Server {
	t.Helper()
	user := serverUser(t, "mysql")
	dir := tempDir(t, user)
	data := filepath.Join(dir, "data")
	program := mysqlProgram(t, "mariadb-install-db")
	binary.mysqlData.copyTo(t, user, data, func(data string) error {
		install := func() error {
			return run(user.as(exec.Command(program, "--no-defaults", "--datadir="+data,
				"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-flush-method=nosync", logSize)))
		}
		// On a busy machine the server that it runs crashes now and then, before there is any data of ours.
		err := install()
		if err != nil && strings.Contains(err.Error(), "got signal 11") {
			_ = os.RemoveAll(data) // what stays is found by the next try
			err = install()
		}
		return err
	})
	bin := mysqlProgram(t, "mariadbd")
	settings = append([]string{
		"bind-address=127.0.0.1",
		"socket=" + filepath.Join(dir, "s"),
		"pid-file=" + filepath.Join(dir, "pid"),
		"skip-name-resolve",
		"max-connections=200",
		"innodb-flush-log-at-trx-commit=1", "innodb-flush-method=nosync",
		"innodb-buffer-pool-size=64M", logSize[len("--"):],
	}, settings...)
	return newServer(t, mysql, "mysql", servertest.Program{
		Ready: "ready for connections",
		Stop:  syscall.SIGKILL, // it takes seconds to end, to save what nobody needs any longer
		Command: func(port int) *exec.Cmd {
			args := []string{"--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(port)}
			for _, setting := range settings {
				args = append(args, "--"+setting)
			}
			return user.as(exec.Command(bin, args...))
		},
	})
}

// mysqlProgram finds a program of MariaDB, which is in a directory for administrators.
func mysqlProgram(t testing.TB, name string) string {
	t.Helper()
	return lookPath(t, name, "/usr/sbin", "/usr/local/sbin")
}
