package main

import (
	"os/exec"
	"regexp"
	"testing"
)

// The command of the README compiles soon: it links no database, no store but Redis', no SDK and no console.
func TestLight(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	heavy := regexp.MustCompile(`(?m)^(modernc.org/sqlite|github.com/(jackc/pgx|go-sql-driver|go-zookeeper|prometheus)|go.etcd.io/|go.opentelemetry.io/otel/sdk|github.com/keyturn/keyturn/console).*`)
	if found := heavy.FindAllString(string(out), -1); found != nil {
		t.Errorf("it links %v", found)
	}
}
