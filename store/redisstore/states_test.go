package redisstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

func set(t testing.TB, server *redistest.Server, name, value string) {
	t.Helper()
	cli(t, server, "OK", "CONFIG", "SET", name, value)
}

// outage checks that err is one, with that cause.
func outage(t testing.TB, what string, err, cause error) {
	t.Helper()
	good := errors.Is(err, cause) && errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrLeaseLost)
	check(t, good, "%s: want %v and ErrUnavailable, got %v", what, cause, err)
}

// refusal asks for a free key. The error must be an outage with the given cause.
func refusal(t testing.TB, s *redisstore.Store, cause error) {
	t.Helper()
	for _, wait := range []bool{false, true} {
		req := request("o", "free", time.Minute)
		req.Wait = wait
		outage(t, "Acquire", checktest.ErrorOf(s.Acquire(within(t, 5*time.Second), req)), cause)
	}
}

func TestReadOnly(t *testing.T) {
	server, s := onServer(t)
	g := lock(t, s, "o", "k", time.Minute)
	cli(t, server, "OK", "REPLICAOF", "127.0.0.1", "1") // nobody is there
	refusal(t, s, redisstore.ErrReadOnly)
	outage(t, "Renew", renew(t, s, g), redisstore.ErrReadOnly)
	wantIs(t, "Release", s.Release(within(t, time.Second), g), redisstore.ErrReadOnly)
	cli(t, server, "OK", "REPLICAOF", "NO", "ONE")
	release(t, s, g)
}

func TestMinReplicas(t *testing.T) {
	server, s := onServer(t)
	set(t, server, "min-replicas-to-write", "1")
	refusal(t, s, redisstore.ErrNoReplicas)
	set(t, server, "min-replicas-to-write", "0")
	// As another owner: what the refused requests may have left is still being undone.
	release(t, s, lock(t, s, "another", "free", time.Minute))
}

func TestWithReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	admin := server.Client()
	user := as(t, server, aclKeys, aclChannels, aclCommands, aclMessages, "+wait")
	s := open(t, user, redisstore.WithReplicas(1, 200*time.Millisecond))
	refusal(t, s, redisstore.ErrNoReplicas)
	eventually(t, soon, "the grant is undone", func() bool { return admin.Exists(bg, "lock:free").Val() == 0 })

	replica := follow(t, server)
	g := lock(t, s, "o", "k", time.Minute)
	check(t, replica.Client().Exists(bg, "lock:k").Val() == 1, "the replica does not have the grant")
	w := enqueue(t, s, "w", "k", time.Minute)
	release(t, s, g)
	release(t, s, w.GrantedIn(soon))
	replica.Pause()
	defer replica.Resume()
	refusal(t, s, redisstore.ErrNoReplicas)
	eventually(t, soon, "the grant is undone", func() bool { return admin.Exists(bg, "lock:free").Val() == 0 })
}

// TestBusyServer: a server that runs somebody's slow script says BUSY to all others. That passes.
func TestBusyServer(t *testing.T) {
	server, s := onServer(t)
	admin := server.Client(once, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	set(t, server, "busy-reply-threshold", "10")
	done := checktest.Async(func() error { return admin.Eval(bg, "while true do end", nil).Err() })
	eventually(t, 5*time.Second, "the server is busy", func() bool {
		return redis.HasErrorPrefix(server.Client().Get(bg, "x").Err(), "BUSY")
	})
	wantIs(t, "Acquire", checktest.ErrorOf(s.Acquire(within(t, 50*time.Millisecond), request("o", "k", time.Minute))), driver.ErrUnavailable)
	killer := server.Client()
	time.AfterFunc(100*time.Millisecond, func() { killer.ScriptKill(bg) })
	lock(t, s, "patient", "k2", time.Minute)
	err := <-done
	check(t, err != nil && strings.Contains(err.Error(), "SCRIPT KILL"), "the slow script: %v", err)
	eventually(t, soon, "what was given up is undone", func() bool { return admin.Exists(bg, "lock:k").Val() == 0 })
}

// TestLoadingServer: a server that reads its data back in says LOADING.
func TestLoadingServer(t *testing.T) {
	servertest.LongParallel(t)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no",
		"--key-load-delay", "100") // µs
	s := open(t, server.Client())
	g := lock(t, s, "holder", "k", time.Minute)
	// While it loads, a server looks at its connections once per 1024 commands.
	pipe := server.Client().Pipeline()
	for i := range 4096 {
		pipe.Set(bg, fmt.Sprint("data", i), "x", 0)
	}
	must(t, checktest.ErrorOf(pipe.Exec(bg)))
	done := checktest.Async(func() error {
		for !isLoading(server.Addr()) {
			time.Sleep(time.Millisecond)
		}
		return checktest.ErrorOf(s.Acquire(within(t, 10*time.Second), request("o", "k2", time.Minute)))
	})
	server.Restart(t)
	must(t, arrives(t, done))
	wantIs(t, "Renew", renew(t, s, g), nil)
}

// isLoading asks without go-redis, which stops dialling for a second when nobody listens.
func isLoading(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(conn, "GET x\r\n")
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.HasPrefix(answer, "-LOADING ")
}

// TestRenewalsWaitForReplicas: a lease that the replicas do not have would be forgotten
// in a failover, so its renewal is not one. Many of them wait once.
func TestRenewalsWaitForReplicas(t *testing.T) {
	servertest.LongParallel(t)
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := follow(t, master)
	s := open(t, master.Client(), redisstore.WithReplicas(1, 200*time.Millisecond))
	var grants []driver.Grant
	for i := range 50 {
		grants = append(grants, lock(t, s, fmt.Sprint("o", i), fmt.Sprint("k", i), time.Minute))
	}
	if err := renew(t, s, grants[0]); err != nil { // the server has the script then
		t.Fatal(err)
	}
	was := master.Commands(t)["wait"]
	for i, err := range s.Renew(within(t, 5*time.Second), grants) {
		check(t, err == nil, "Renew of %d: %v", i, err)
	}
	n := master.Commands(t)["wait"] - was
	check(t, n == 1, "%d renewals waited %d times", len(grants), n)
	stranger := grants[1]
	stranger.Owner = "stranger"
	master.Client().Set(t.Context(), "lock:k2", "somebody", 0)

	replica.Pause()
	errs := s.Renew(within(t, 5*time.Second), []driver.Grant{grants[0], stranger, grants[2]})
	outage(t, "Renew", errs[0], redisstore.ErrNoReplicas)
	for i, err := range errs[1:] {
		check(t, errors.Is(err, driver.ErrLeaseLost), "Renew of what is not its own, %d: want ErrLeaseLost, got %v", i, err)
	}
	rec := driver.Record{Result: []byte("r")}
	wantIs(t, "Complete", s.Complete(within(t, 5*time.Second), grants[3], rec, time.Minute), redisstore.ErrNoReplicas)
	replica.Resume()
	eventually(t, 10*time.Second, "the replica confirms again", func() bool { return renew(t, s, grants[0]) == nil })
	wantIs(t, "Complete, repeated", s.Complete(within(t, 5*time.Second), grants[3], rec, time.Minute), nil)
	release(t, s, grants[0]) // waits for nobody
}

// follow runs a replica of master, and returns it once it has what is written there.
func follow(t testing.TB, master *redistest.Server) *redistest.Server {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	must(t, err)
	replica, admin := redistest.Start(t, "--replicaof", host, port), master.Client()
	eventually(t, 10*time.Second, "the replica follows", func() bool {
		// Not by WAIT: it counts a replica that is there but gets nothing yet.
		admin.Set(bg, "written", "while it follows", 0)
		return replica.Client().Exists(bg, "written").Val() == 1 &&
			strings.Contains(admin.Info(bg, "replication").Val(), "state=online") && admin.Del(bg, "written").Val() == 1
	})
	eventually(t, 10*time.Second, "it follows", func() bool { return replica.Client().Exists(bg, "written").Val() == 0 })
	return replica
}

// TestRestartWithData: what the server wrote down is in force again, leases and places in line.
func TestRestartWithData(t *testing.T) {
	t.Parallel()
	server, s := storeOn(t, redistest.Start(t, redistest.KeepData...), redisstore.WithWaiterLease(600*time.Millisecond))
	g := lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	server.Restart(t)
	wantIs(t, "Renew", renew(t, s, g), nil)
	wantEqual(t, "in line", waiting(t, server, "k"), 1)
	release(t, s, g)
	next := w.GrantedIn(soon)
	check(t, next.Token > g.Token, "token %d follows %d", next.Token, g.Token)
}

// TestEvictionWarning: a store looks for the setting when it is made, by INFO or, without permission for that, CONFIG.
func TestEvictionWarning(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "volatile-ttl")
	for _, acl := range []string{"+@all", "+@all -info"} {
		said := make(lines, 100)
		open(t, as(t, server, acl, "allkeys"), redisstore.WithLogger(slog.New(slog.NewTextHandler(said, nil))))
		for !strings.Contains(arrives(t, said), "maxmemory-policy=volatile-ttl") {
		}
	}
}

// A wrong password is no matter of channels.
func TestLoginWarning(t *testing.T) {
	said := make(lines, 100)
	client := redistest.Start(t).Client(func(o *redis.Options) { o.Username, o.Password = "nobody", "guess" })
	open(t, client, redisstore.WithLogger(slog.New(slog.NewTextHandler(said, nil))))
	for !strings.Contains(arrives(t, said), "user name and password") {
	}
}

// lines are what a store has written to its logger.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}
