package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The two kinds of proto root: a directory called proto, and a module without.
var tree = map[string]string{
	"go.mod":          "module example.test/m\n",
	"examples/go.mod": "module example.test/m/examples\n",
	"proto/m/v1/options.proto": `syntax = "proto3";
package m.v1;
import "google/protobuf/descriptor.proto";
option go_package = "example.test/m/proto/m/v1;mv1";
message Rule { string key = 1; }
extend google.protobuf.MethodOptions { Rule lock = 51234; }
`,
	"examples/chat/chatpb/chat.proto": `syntax = "proto3";
package chat.v1;
import "m/v1/options.proto";
option go_package = "example.test/m/examples/chat/chatpb";
service Chat {
  // Sends one message.
  rpc Send(Message) returns (Message) { option (m.v1.lock) = {key: "chat:{id}"}; }
}
message Message { string id = 1; }
`,
}

var sourceFiles = []string{"proto/m/v1/options.proto", "examples/chat/chatpb/chat.proto"}

// inTree makes a directory with the files of tree the working directory, and returns where the plugins are.
func inTree(t *testing.T) (pluginDir string) {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin,
		"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc", "mvdan.cc/gofumpt")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Chdir(t.TempDir())
	for name, content := range tree {
		put(t, name, content)
	}
	return bin
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is generated, and how it is formatted, make lint compares with the repository's own files.
func TestGenerateAndCheck(t *testing.T) {
	bin := inTree(t)
	if err := run(bin, true, sourceFiles); err == nil {
		t.Error("nothing is generated yet, and -check does not mind")
	}
	if err := run(bin, false, sourceFiles); err != nil {
		t.Fatal(err)
	}

	if err := run(bin, true, sourceFiles); err != nil {
		t.Errorf("just generated: %v", err)
	}

	put(t, "proto/m/v1/options.pb.go", "package mv1\n")
	err := run(bin, true, sourceFiles)
	if err == nil || !strings.Contains(err.Error(), "options.pb.go") {
		t.Errorf("a changed file: %v", err)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	bin := inTree(t)
	put(t, "broken/go.mod", "module b\n")
	put(t, "broken/b.proto", "syntax = \"proto3\";\nmessage {}\n")
	put(t, "nopackage/go.mod", "module n\n")
	put(t, "nopackage/n.proto", "syntax = \"proto3\";\nmessage N {}\n")
	for name, test := range map[string]struct {
		files []string
		want  string
	}{
		"syntax":        {[]string{"broken/b.proto"}, "b.proto:2"},
		"missing":       {[]string{"proto/m/v1/none.proto"}, "none.proto"},
		"no go_package": {[]string{"nopackage/n.proto"}, "protoc-gen-go"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(bin, false, test.files)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to contain %q", err, test.want)
			}
		})
	}
}
