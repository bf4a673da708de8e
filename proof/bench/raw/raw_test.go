package raw

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/redistest"
)

func TestCommandIsAnArrayOfStrings(t *testing.T) {
	got := string(Command([]byte("+"), "GET", "käse"))
	if want := "+*2\r\n$3\r\nGET\r\n$5\r\nkäse\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// After each command the connection is where the next reply begins, whatever
// kind of reply came before.
func TestDoReadsEveryKindOfReply(t *testing.T) {
	server := redistest.Start(t)
	conn, err := Dial(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var all []byte
	commands := [][]string{
		{"SET", "k", strings.Repeat("v", 100_000)}, // +OK
		{"GET", "k"},    // a string longer than the buffer
		{"GET", "none"}, // nil
		{"INCR", "n"},   // a number
		{"MGET", "k", "none", "n"},
		{"EVAL", "return {1, {'a', false}}", "0"},
	}
	for _, command := range commands {
		all = Command(all, command...)
	}
	for range 2 {
		if err := conn.Do(all, len(commands)); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Client().Get(t.Context(), "n").Val(); n != "2" {
		t.Errorf("counted to %s", n)
	}
	if err := conn.Do(Command(nil, "NOSUCH"), 1); err == nil || !strings.Contains(err.Error(), "NOSUCH") {
		t.Errorf("the error is %v", err)
	}
}

func TestLoadKeepsTheScript(t *testing.T) {
	server := redistest.Start(t)
	conn, err := Dial(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hash, err := conn.Load("return redis.call('SET', KEYS[1], ARGV[1])")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Do(Command(nil, "EVALSHA", hash, "1", "k", "v"), 1); err != nil {
		t.Fatal(err)
	}
	if got := server.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("the script left %q", got)
	}
}

func TestConnTellsWhenTheServerHasGone(t *testing.T) {
	server := redistest.Start(t)
	conn, err := Dial(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server.Kill()
	if conn.Do(Command(nil, "PING"), 1) == nil {
		t.Error("a server that has gone answered")
	}
	if _, err := Dial(t.Context(), server.Addr()); err == nil {
		t.Error("a server that has gone took a connection")
	}
}
