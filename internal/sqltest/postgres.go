package sqltest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// How long a program may take that sets up a server.
const setupTimeout = time.Minute

// Postgres returns a new database on the PostgreSQL that all tests of this binary share. It is
// dropped when the test ends.
func Postgres(t testing.TB) *Database {
	t.Helper()
	return binary.postgres.started(t, "PostgreSQL", StartPostgres).Database(t)
}

// StartPostgres runs a PostgreSQL until the test and its subtests end. settings are of the form
// "fsync=on". The test fails at once if the program is missing or does not start.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	user := serverUser(t, "postgres")
	dir := tempDir(t, user)
	data := filepath.Join(dir, "data")
	program := postgresProgram(t, "initdb")
	binary.postgresData.copyTo(t, user, data, func(data string) error {
		return run(user.as(exec.Command(program, "--pgdata", data, "--username", account,
			"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")))
	})
	return runPostgres(t, user, dir, "database system is ready to accept connections", settings)
}

// runPostgres runs a server on the data in dir.
func runPostgres(t testing.TB, user *user, dir, ready string, settings []string) *Server {
	t.Helper()
	bin, data := postgresProgram(t, "postgres"), filepath.Join(dir, "data")
	settings = append([]string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=" + dir,
		"fsync=off", "full_page_writes=off", "synchronous_commit=on",
		"max_connections=200",
		"log_min_messages=warning",
		// What is in shared memory otherwise stays behind when the server is killed.
		"dynamic_shared_memory_type=mmap",
	}, settings...)
	return newServer(t, postgres, "pgx", servertest.Program{
		Ready: ready,
		Stop:  syscall.SIGQUIT, // at once, also if clients are connected
		Command: func(port int) *exec.Cmd {
			args := []string{"-D", data, "-p", strconv.Itoa(port)}
			for _, setting := range settings {
				args = append(args, "-c", setting)
			}
			return user.as(exec.Command(bin, args...))
		},
	})
}

// postgresProgram finds a program of PostgreSQL. Debian keeps them out of PATH, because several
// versions may be there: the newest counts.
func postgresProgram(t testing.TB, name string) string {
	t.Helper()
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // no error: the pattern is right
	slices.Reverse(dirs)
	return lookPath(t, name, dirs...)
}

// lookPath finds a program on PATH or in one of dirs.
func lookPath(t testing.TB, name string, dirs ...string) string {
	t.Helper()
	bin, err := servertest.LookPath([]string{name}, dirs...)
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	return bin
}

// run runs a program to its end. The error has what the program printed.
func run(cmd *exec.Cmd) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	limited := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	limited.SysProcAttr, limited.Dir = cmd.SysProcAttr, cmd.Dir
	if out, err := limited.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}
