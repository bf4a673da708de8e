//go:build unix

package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/servertest"
)

// Longer than a healthy server ever takes.
const askTimeout = 10 * time.Second

// Client returns a new client of the server, closed when the test that started
// the server ends. The options are go-redis' defaults, changed by opts.
func (s *Server) Client(opts ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: s.Addr(), DB: s.db}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

// CLI runs redis-cli (or valkey-cli) against the server: a client that shares no code with
// ours. It returns the output without the last line break: "OK", "1", "" for nil. A server's
// error reply is output, too. An error means that the program is missing, or got no answer.
func (s *Server) CLI(args ...string) (string, error) {
	bin, err := servertest.LookPath([]string{"redis-cli", "valkey-cli"})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	to := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.Port())}
	if s.db > 0 {
		to = append(to, "-n", strconv.Itoa(s.db))
	}
	args = append(to, args...)
	out, err := exec.CommandContext(ctx, bin, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("%s: %w", bin, err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// CommandCount returns how many commands the server has run since its start. The commands of a
// script count, and so does the script. This question does not count.
func (s *Server) CommandCount(t testing.TB) int64 {
	t.Helper()
	var total int64
	for _, calls := range s.Commands(t) {
		total += calls
	}
	return total
}

// Commands returns how often the server has run each command since its start, by lower-case
// name: "set", "evalsha", "client|setinfo". It leaves out INFO, because it uses INFO itself.
func (s *Server) Commands(t testing.TB) map[string]int64 {
	t.Helper()
	text, err := ask(s.Addr(), "INFO commandstats")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	counts := make(map[string]int64)
	// cmdstat_get:calls=2,usec=5,usec_per_call=2.50,...
	for line := range strings.Lines(text) {
		name, stats, found := strings.Cut(line, ":calls=")
		if !found {
			continue
		}
		name = strings.TrimPrefix(name, "cmdstat_")
		calls, _, _ := strings.Cut(stats, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			t.Fatalf("redistest: %q: %v", line, err)
		}
		if name != "info" {
			counts[name] = n
		}
	}
	return counts
}

// ask sends one command on a connection of its own and returns the bulk reply. A client library
// would send further commands to set up its connection, and the server would count them.
func ask(addr, command string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, askTimeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	head, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil {
		return "", fmt.Errorf("%s: unexpected reply %q", command, head)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return "", err
	}
	return string(body), nil
}

// OnCommand is a hook of a client that sees each command before it is sent, alone or in a pipeline.
type OnCommand func(redis.Cmder)

// DialHook implements [redis.Hook].
func (OnCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (see OnCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		see(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (see OnCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			see(cmd)
		}
		return next(ctx, cmds)
	}
}

// SetUser changes the user keyturn. Rules stand between spaces, as in redis-cli.
func (s *Server) SetUser(t testing.TB, rules ...string) {
	t.Helper()
	args := []any{"acl", "setuser", "keyturn"}
	for _, rule := range strings.Fields(strings.Join(rules, " ")) {
		args = append(args, rule)
	}
	if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// Quiet has go-redis log nothing: tests break connections by the hundred.
func Quiet() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
