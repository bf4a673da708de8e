package sqltest

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Replica runs a streaming replica of a PostgreSQL until the test and its subtests end. It has
// copied the server's databases, and follows the server through the host:port addr, which is that of
// the server or of a proxy. It takes statements that only read, until [Server.Promote].
func (s *Server) Replica(t testing.TB, addr string, settings ...string) *Server {
	t.Helper()
	user := serverUser(t, "postgres")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	dir := tempDir(t, user)
	err = run(user.as(exec.Command(postgresProgram(t, "pg_basebackup"), "--pgdata", filepath.Join(dir, "data"), "--host", host, "--port", port,
		"--username", account, "--checkpoint", "fast", "--no-sync", "--write-recovery-conf")))
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	return runPostgres(t, user, dir, "ready to accept read-only connections",
		append([]string{fmt.Sprintf("primary_conninfo=host=%s port=%s user=%s", host, port, account)}, settings...))
}

// CaughtUp waits until a replica has all that server has committed by now.
func (s *Server) CaughtUp(t testing.TB, server *Server) {
	t.Helper()
	var at string
	server.ask(t, "SELECT pg_current_wal_lsn()", &at)
	s.await(t, "SELECT pg_last_wal_replay_lsn() >= '"+at+"'")
}

// Promote makes a primary of a replica: after that it takes statements that write.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.await(t, "SELECT pg_promote()")
}

// Synchronous makes each COMMIT on the server wait for its replica from now on. It returns when the
// replica takes part in that.
func (s *Server) Synchronous(t testing.TB) {
	t.Helper()
	s.exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	s.await(t, "SELECT pg_reload_conf()")
	s.await(t, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
}

// await asks a question until the answer is yes.
func (s *Server) await(t testing.TB, question string) {
	t.Helper()
	for end := time.Now().Add(setupTimeout); ; time.Sleep(20 * time.Millisecond) {
		var yes bool
		s.ask(t, question, &yes)
		if yes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("sqltest: never: %s", question)
		}
	}
}

// ask reads one value.
func (s *Server) ask(t testing.TB, question string, answer any) {
	t.Helper()
	if err := s.admin().QueryRow(question).Scan(answer); err != nil {
		t.Fatalf("sqltest: %s: %v", question, err)
	}
}
