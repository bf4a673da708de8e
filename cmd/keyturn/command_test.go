//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/lockjson"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// ls, show, force and forget on a real store, from a pipe.
func TestOperator(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := "redis://" + server.Addr()
	eng := engine(t, store)
	lease, err := eng.Acquire(t.Context(), "group:7", core.WithRule("r"))
	must(t, err)
	_, err = eng.Once(t.Context(), "payment:1", func(context.Context) ([]byte, error) { return []byte("paid"), nil })
	must(t, err)
	at := func(args ...string) *process { return command(t, append([]string{"--store", store}, args...)...) }

	out := at("ls", "group:").ends(0).stdout.String()
	check(t, strings.HasPrefix(out, "KEY\tMODE\tHOLDER\t") && strings.Count(out, "\n") == 2 && strings.Contains(out, "group:7\texclusive\t"), "%q", out)
	var list []lockjson.Lock
	for want, args := range map[string][]string{"group:7": {"ls", "-o", "json"}, "payment:1": {"ls", "--records", "-o", "json"}} {
		if err := json.Unmarshal([]byte(at(args...).ends(0).stdout.String()), &list); err != nil || len(list) != 1 || list[0].Key != want {
			t.Errorf("%v: %v, %v", args, list, err)
		}
	}
	var shown lockjson.Lock
	if err := json.Unmarshal([]byte(at("show", "group:7", "-o", "json").ends(0).stdout.String()), &shown); err != nil || shown.Holders[0].Owner != lease.Owner() {
		t.Errorf("%+v, %v", shown, err)
	}
	at("show", "nothing").ends(66).says("nobody holds nothing")
	at("ls", "a", "b").ends(64)
	at("ls", "-o", "xml").ends(64).says("wide, json or jsonl")
	at("nosuch").ends(64)
	at("ls", "--json").ends(64).says("want -o json")
	at("ls", "--nosuch").ends(64).says("see keyturn ls --help")

	at("force", "group:7").ends(64).says("--reason")
	at("force", "group:7", "--reason", strings.Repeat("x", 300)).ends(64).says("too long")
	at("force", "group:7", "--reason", "x").ends(64).says("--yes")
	at("force", "group:7", "--reason", "x", "--yes", "--owner", "other").ends(75).says("group:7 is held by the owner " + lease.Owner() + ", not by other")
	at("force", "nothing", "--reason", "x", "--yes").ends(66)
	if lease.Err() != nil {
		t.Fatal(lease.Err())
	}
	// Anybody who reaches the server can be an owner, with control characters for the terminal.
	must(t, server.Client().Set(t.Context(), "lock:evil", "\x1b[2Jx", time.Minute).Err())
	evil := at("force", "evil", "--reason", "x", "--yes", "--owner", "other").ends(75)
	evil.says(`evil is held by the owner "\x1b[2Jx", not by other`)
	check(t, !strings.Contains(evil.stderr.String(), "\x1b"), "%q", evil.stderr.String())
	at("force", "group:7", "--reason", "hangs", "--yes", "--owner", lease.Owner()).ends(0).says("group:7 was taken from ")
	if err := lease.Release(t.Context()); err == nil || !strings.Contains(err.Error(), ": hangs") || !strings.Contains(err.Error(), "@") {
		t.Errorf("the holder learns: %v", err)
	}
	at("force", "group:7", "--reason", "x", "--yes").ends(66)

	at("forget", "payment:1").ends(64)
	at("forget", "payment:1", "--reason", "x").ends(0)
	at("forget", "payment:1", "--reason", "x").ends(66).says("not on record")
}

// Where the store is: the command line, then the environment, then a file. A prefix on its own
// replaces that of the URL.
func TestConfiguration(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	addr := redistest.Start(t).Addr()
	held(t, engine(t, "redis://"+addr+"?prefix=p:"), "k")
	held(t, engine(t, "redis://"+addr+"?prefix="), "bare")
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	good := write("good", "# locks\n\nstore = redis://"+addr+"?pool_size=2\nprefix = p:\n")
	elsewhere := write("elsewhere", "store = redis://127.0.0.1:1\nprefix = q:\n")
	none := write("none", "store = redis://"+addr+"?prefix=p:\nprefix =\n")
	for name, c := range map[string]struct {
		args, env []string
		status    int
	}{
		"no prefix, flag":        {[]string{"--store", "redis://" + addr + "?prefix=p:", "--prefix", "", "show", "bare"}, []string{"KEYTURN_PREFIX=p:"}, 0},
		"no prefix, environment": {[]string{"show", "bare", "--config", good}, []string{"KEYTURN_PREFIX="}, 0},
		"no prefix, file":        {[]string{"show", "bare", "--config", none}, nil, 0},
		"no prefix, URL":         {[]string{"--store", "redis://" + addr + "?prefix=", "show", "bare"}, nil, 0},
		"flags":                  {[]string{"--store", "redis://" + addr, "--prefix", "p:", "show", "k"}, nil, 0},
		"URL":                    {[]string{"--store", "redis://" + addr + "?prefix=p:", "show", "k"}, nil, 0},
		"environment":            {[]string{"show", "k"}, []string{"KEYTURN_STORE=redis://" + addr, "KEYTURN_PREFIX=p:"}, 0},
		"file":                   {[]string{"show", "k", "--config", good}, nil, 0},
		"named file":             {[]string{"show", "k"}, []string{"KEYTURN_CONFIG=" + good}, 0},
		"order":                  {[]string{"show", "k", "--store", "redis://" + addr}, []string{"KEYTURN_STORE=redis://127.0.0.1:1", "KEYTURN_CONFIG=" + elsewhere, "KEYTURN_PREFIX=p:"}, 0},
		"another prefix":         {[]string{"--store", "redis://" + addr + "?prefix=p:", "--prefix", "q:", "show", "k"}, nil, 66},
		"no store":               {[]string{"ls"}, nil, 78},
		"no file":                {[]string{"ls", "--config", filepath.Join(dir, "nosuch")}, nil, 78},
		"no file, nor a store":   {[]string{"help"}, []string{"KEYTURN_CONFIG=" + filepath.Join(dir, "nosuch")}, 0},
		"no such setting":        {[]string{"ls", "--config", write("bad", "stor = x\n")}, nil, 78},
		"no form":                {[]string{"ls", "--config", write("worse", "store\n")}, nil, 78},
	} {
		p := command(t, c.args...)
		p.Env = append(p.Env, c.env...)
		if p.ends(c.status); t.Failed() {
			t.Fatal(name)
		}
	}
	command(t, "ls", "--store", "localhost:6379").ends(78).says("as in redis://localhost")
}

// A password is in no output, whatever goes wrong.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right")
	for _, c := range []struct {
		store  string
		status int
	}{
		{"redis://:se%2Fcret@" + server.Addr(), 77},
		{"redis://:se%2Fcret@127.0.0.1:1?max_retries=-1", 69},
		{"redis://:se%2Fcret@127.0.0.1:1?nosuch=1", 78},
		{"redis://:se/cret@127.0.0.1", 78},
		{"postgres://me:se%2Fcret@127.0.0.1:1/db", 69},
	} {
		p := command(t, "ls", "-v", "--timeout", "2s")
		p.Env = append(p.Env, "KEYTURN_STORE="+c.store)
		p.ends(c.status)
		if text := p.stderr.String() + p.stdout.String(); strings.Contains(text, "se/cret") || strings.Contains(text, "se%2Fcret") {
			t.Errorf("%s", text)
		}
	}
}

// What people read names flags, not the options of the engine, and says once who speaks. Headings alone would
// say that nothing is held.
func TestRefusals(t *testing.T) {
	servertest.Long(t)
	store := onRedis(t)
	command(t, "--store", store, "run", "k", "--ttl", "1ms", "--", "true").ends(64).says("keyturn: --ttl 1ms: want 10ms to 24h\n")
	command(t, "--store", store, "once", "k", "--retention", "0", "--", "true").ends(64).says("keyturn: --retention 0s: want 1ms or more\n")
	command(t, "--store", store, "once", "k", "--signal", "NONE", "--", "true").ends(64).says(`keyturn: --signal "NONE": want TERM`)
	command(t, "--store", store, "--timeout", "0", "ls").ends(64).says("keyturn: --timeout 0s: want more than 0")
	command(t, "--store", store, "ui", "--interval", "1ms").ends(64).says("keyturn: --interval 1ms: want 200 ms to a minute\n")
	command(t, "--store", store, "ui", "--trace-url", "tempo").ends(64).says("keyturn: --trace-url tempo: want a URL")
	command(t, "--store", "redis://localhost?waiter_lease=1ms", "ls").ends(64).says("keyturn: redis://localhost: the parameter waiter_lease 1ms: want 100ms to 10m")
	command(t, "--store", "redis://localhost", "--prefix", "{", "ls").ends(64).says("the parameter prefix {: want at most 128 bytes")
	command(t, "--store", "redlock://a,b,c?max_ttl=0s", "ls").ends(64).says("the parameter max_ttl 0s: want 1s to 24h")
	command(t, "--store", "redlock://a", "ls").ends(64).says("keyturn: redlock://a: got 1, want an odd number of nodes")
	command(t, "--store", "zk://h/zookeeper", "ls").ends(64).says("got /zookeeper, want an absolute path in ASCII without an empty part, outside of the servers' own /zookeeper")
	hurried := command(t, "--store", "redis://127.0.0.1:1", "run", "--wait", "1ns", "k", "--", "true").ends(69)
	if text := hurried.stderr.String(); strings.Count(text, "store unavailable") != 1 {
		t.Error(text)
	}
	for _, away := range []string{"redis://127.0.0.1:1", "etcd://127.0.0.1:1", "zk://127.0.0.1:1"} {
		p := command(t, "--store", away, "--timeout", "1s", "ls").ends(69)
		p.says("store unavailable")
		if text := p.stderr.String(); strings.Count(text, "keyturn:") != 1 || p.stdout.String() != "" {
			t.Errorf("%s: %s%s", away, p.stdout.String(), text)
		}
	}
}

// Keys are completed from the store, also when it is away, and then soon.
func TestCompletion(t *testing.T) {
	store := onRedis(t)
	eng := engine(t, store)
	for _, key := range []string{"user:1", "user:2", "group:1"} {
		held(t, eng, key)
	}
	p := command(t, "__complete", "--store", store, "force", "user:").ends(0)
	if out := p.stdout.String(); !strings.Contains(out, "user:1\n") || !strings.Contains(out, "user:2\n") || strings.Contains(out, "group") {
		t.Errorf("%s", out)
	}
	if out := command(t, "__complete", "--store", store, "run", "user:1", "--", "").ends(0).stdout.String(); strings.TrimSpace(out) != ":0" {
		t.Errorf("a program's arguments are files: %q", out)
	}
	begin := time.Now()
	command(t, "__complete", "--store", "redis://127.0.0.1:1", "show", "").ends(0)
	if took := time.Since(begin); took > 10*time.Second { // 300 ms, on a machine with nothing else to do
		t.Errorf("%v", took)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := command(t, "completion", shell).ends(0).stdout.String(); !strings.Contains(out, "keyturn") {
			t.Errorf("%s: %q", shell, out)
		}
	}
}

// init makes the tables, or prints how. Without them other commands say what to do.
func TestInit(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	command(t, "--store", store, "ls").ends(78).says("keyturn init")
	if out := command(t, "--store", store, "--prefix", "p_", "init", "--print").ends(0).stdout.String(); !strings.Contains(out, "CREATE TABLE IF NOT EXISTS p_lock") {
		t.Errorf("%s", out)
	}
	command(t, "--store", store, "init").ends(0)
	command(t, "--store", store, "init").ends(0)
	command(t, "--store", store, "ls").ends(0)
	if out := command(t, "--store", "redis://h", "init", "--print").ends(0).stdout.String(); out != "" {
		t.Errorf("%q", out)
	}
	command(t, "--store", "redlock://a,b,c", "init", "--print").ends(64)
	nodes := "redlock://" + redistest.Start(t).Addr() + "," + redistest.Start(t).Addr() + "," + redistest.Start(t).Addr()
	command(t, "--store", nodes, "init").ends(0)
	command(t, "--store", nodes, "init").ends(1).says("nodes have been in use") // an answer, no bug
}

// watch prints what changes, outlives an outage of the store, and ends with a signal.
func TestWatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := "redis://" + server.Addr() + "?max_retries=-1"
	p := command(t, "--store", store, "watch", "user:", "--interval", "100ms", "-o", "jsonl").start()
	command(t, "--store", store, "watch", "--interval", "1ms").ends(64)
	hold := func() {
		t.Helper()
		lease, err := engine(t, store).Acquire(t.Context(), "user:1")
		must(t, err)
		await(t, "it says who has the key", func() bool { return strings.Contains(p.stdout.String(), lease.Owner()) })
		must(t, lease.Release(t.Context()))
		await(t, "it says that the key is free", func() bool {
			return strings.Count(p.stdout.String(), `"change":"ended"`) == strings.Count(p.stdout.String(), `"change":"held"`)
		})
	}
	hold()
	server.Kill()
	p.says("looking again")
	server.Restart(t)
	hold()
	for line := range strings.Lines(p.stdout.String()) {
		var c change
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Key != "user:1" || c.Time == "" || c.Change == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
	_ = p.Process.Signal(os.Interrupt)
	p.ends(0)
}
