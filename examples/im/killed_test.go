//go:build unix

package main

import (
	"encoding/json"
	"testing"

	"github.com/keyturn/keyturn/examples/im/report"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// Workers are killed while they deliver messages. Without keyturn some messages have two effects,
// with it each has one, by the count of the database.
func TestKilled(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{"SQLite": "sqlite", "PostgreSQL": sqltest.Postgres(t).DSN()} {
		p := command(t, nil, "-json", "-db", database)
		if code := p.run(t); code != 0 {
			t.Errorf("%s: exit code %d\n%s", name, code, p.stderr.String())
			continue
		}
		var result report.Result
		if err := json.Unmarshal(p.stdout.Bytes(), &result); err != nil {
			t.Fatal(err)
		}
		k := result.Killed
		if k == nil || k.Database != name {
			t.Fatalf("%s: %+v", name, k)
		}
		if k.Unguarded.DeliveredTwice == 0 {
			t.Errorf("%s: without keyturn nothing goes wrong", name)
		}
		if k.Guarded.DeliveredTwice+k.Guarded.Lost > 0 {
			t.Errorf("%s: with keyturn: %+v", name, k.Guarded)
		}
	}
}
