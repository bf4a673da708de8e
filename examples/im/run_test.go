//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/examples/im/report"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// decode checks that out is one object with what the program promises.
func decode(t *testing.T, out []byte) (result report.Result) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil || decoder.More() {
		t.Fatalf("%v in %q", err, out)
	}
	return result
}

// Whatever Redis there is: without keyturn each scenario goes wrong, with it
// none does.
func TestRun(t *testing.T) {
	t.Parallel()
	servertest.Long(t) // TestRedisURL has a server, too
	for _, test := range []struct {
		name string
		env  string
		want string // in the name of the Redis
	}{
		{"redis-server", "", "private"},
		{"embedded", "PATH=" + t.TempDir(), "embedded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := command(t, []string{test.env}, "-json")
			if code := p.run(t); code != 0 {
				t.Fatalf("exit code %d\n%s", code, p.stderr.String())
			}
			result := decode(t, p.stdout.Bytes())
			check(t, strings.Contains(result.Redis, test.want), "redis %q, want %q in it", result.Redis, test.want)
			check(t, result.Guarded.Clean(), "with keyturn: %+v", result.Guarded)
			u := result.Unguarded
			check(t, u.StatusLostUpdates != 0 && u.GroupViolations != 0 && u.MessagesProcessedTwice != 0, "without keyturn nothing goes wrong: %+v", u)
			check(t, u.Requests != 0 && u.Requests == result.Guarded.Requests, "%d requests without keyturn, %d with it", u.Requests, result.Guarded.Requests)
			check(t, result.Seconds > 0, "%v seconds", result.Seconds)
			check(t, p.stderr.Len() == 0, "-json says something on stderr: %s", p.stderr.String())
		})
	}
}

// In somebody else's Redis nothing is touched, and nothing stays.
func TestRedisURL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	must(t, client.Set(t.Context(), "lock:im", "theirs", 0).Err())
	must(t, client.SAdd(t.Context(), "asynq:queues", "default").Err())
	p := command(t, []string{"REDIS_URL=redis://" + server.Addr()})
	if code := p.run(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.stderr.String())
	}
	if said := p.stderr.String(); !strings.Contains(said, server.Addr()) {
		t.Errorf("said %q, want the server's address in it", said)
	}
	if table := p.stdout.String(); !strings.Contains(table, "without keyturn") {
		t.Errorf("printed %q, want a table", table)
	}
	keys, err := client.Keys(t.Context(), "*").Result()
	slices.Sort(keys)
	check(t, err == nil && slices.Equal(keys, []string{"asynq:queues", "lock:im"}), "keys %q, %v", keys, err)
	queues, err := client.SMembers(t.Context(), "asynq:queues").Result()
	check(t, err == nil && slices.Equal(queues, []string{"default"}), "queues %q, %v", queues, err)
}

func TestCannotStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, env string
		args      []string
		code      int
		want      string // on stderr
	}{
		{"no answer", "REDIS_URL=redis://user:secret@127.0.0.1:1", nil, 1, "127.0.0.1:1 does not answer"},
		{"no URL", "REDIS_URL=redis://user:secret@%zz", nil, 1, "REDIS_URL"},
		{"no such argument", "", []string{"fast"}, 2, "fast"},
		{"no such flag", "", []string{"-fast"}, 2, "-fast"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := command(t, []string{test.env}, test.args...)
			if code := p.run(t); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			said := p.stderr.String()
			check(t, strings.Contains(said, test.want) && !strings.Contains(said, "secret"), "said %q, want %q in it and no password", said, test.want)
			check(t, p.stdout.Len() == 0, "printed %q", p.stdout.String())
		})
	}
}
