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
	if testing.Short() {
		t.Skip("proof/fencetest kills workers, too")
	}
	t.Parallel()
	for name, database := range map[string]string{"SQLite": "sqlite", "PostgreSQL": sqltest.Postgres(t).DSN()} {
		k := killed(t, database)
		if k.Unguarded.DeliveredTwice == 0 { // the kills hit nothing: that is rare, except on a very busy machine
			k = killed(t, database)
		}
		if k.Database != name {
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

// killed runs the example, and returns what it says of its killed workers.
func killed(t *testing.T, database string) *report.Killed {
	t.Helper()
	p := command(t, nil, "-json", "-db", database)
	if code := p.run(t); code != 0 {
		t.Fatalf("%s: exit code %d\n%s", database, code, p.stderr.String())
	}
	var result report.Result
	if err := json.Unmarshal(p.stdout.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	if result.Killed == nil {
		t.Fatalf("%s: no worker was killed", database)
	}
	return result.Killed
}
