//go:build unix

package snippets

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const program = `package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

func main() {
	eng, err := newEngine(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
	if err != nil {
		panic(err)
	}
	fmt.Println(eng.Close(context.Background()))
}
`

// annotated is the line of docs/usage.md about rules in a .proto file.
const annotated = `package main

import (
	"example.com/app/impb"

	"github.com/keyturn/keyturn/middleware/grpc"
)

var _ = lockgrpc.FromAnnotations(&impb.Groups_ServiceDesc)
`

// TestInstall does what docs/usage.md says about a module that is to use keyturn before there is a
// release: the commands, as they stand there, and all snippets. The module has a service of its
// own: the generated code of the example's. It requires what this module requires, as a service that
// exists does. Otherwise the newest versions would be taken, and compiled for this test alone.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a module of its own")
	}
	repository, err := filepath.Abs("../..")
	must(t, err)
	_, after, found := strings.Cut(read(t, "../../docs/usage.md"), "<!-- run by examples/snippets/install_test.go -->\n```sh\n")
	commands, _, ended := strings.Cut(after, "```\n")
	if !found || !ended {
		t.Fatal("docs/usage.md says nothing about it")
	}

	app := filepath.Join(t.TempDir(), "app")
	must(t, os.MkdirAll(filepath.Join(app, "impb"), 0o755))
	must(t, os.Symlink(repository, filepath.Join(app, "../keyturn")))
	for _, name := range []string{"engine.go", "grpc.go", "echo.go", "asynq.go"} {
		_, code, _ := strings.Cut("\n"+read(t, name), "\npackage snippets\n")
		code = strings.Replace(code, "github.com/keyturn/keyturn/examples/im/impb", "example.com/app/impb", 1)
		write(t, filepath.Join(app, name), "package main\n"+code)
	}
	for _, name := range []string{"im.pb.go", "im_grpc.pb.go"} {
		write(t, filepath.Join(app, "impb", name), read(t, filepath.Join("../im/impb", name)))
	}
	write(t, filepath.Join(app, "annotated.go"), annotated)
	write(t, filepath.Join(app, "main.go"), program)
	own, _, _ := strings.Cut(read(t, "../go.mod"), "\nreplace ")
	write(t, filepath.Join(app, "go.mod"), regexp.MustCompile(`(?m)^module .*|^\s*github.com/keyturn/.*$`).ReplaceAllString(own, ""))
	script := "set -e\ngo mod edit -module example.com/app\n" + commands + "go run .\n"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = app
	// Most modules are those that this one was built with; no network for those.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOSUMDB=off",
		"GOPROXY=file://"+goEnv(t, "GOMODCACHE")+"/cache/download,"+goEnv(t, "GOPROXY"))
	out, err := cmd.CombinedOutput()
	check(t, err == nil && strings.HasSuffix(string(out), "<nil>\n"), "%v\n%s", err, out)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	must(t, err)
	return strings.TrimSpace(string(value))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o644))
}
