package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSoak: the service serves while processes and the Redis are killed and started again, without a wrong
// group. It says how large it is, in the table and in the samples.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("a soak takes some time")
	}
	t.Parallel()
	samples := filepath.Join(t.TempDir(), "soak.csv")
	p := command(t, nil, "-for", "5s", "-csv", samples)
	if code := p.run(t); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	file, err := os.Open(samples)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v, %d rows", err, len(rows))
	}
	for _, name := range []string{"requests_per_second", "faults", "goroutines", "connections", "keys", "redis_mb"} {
		at, sum := slices.Index(rows[0], name), 0.0
		for _, row := range rows[1:] {
			n, err := strconv.ParseFloat(row[at], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if sum == 0 {
			t.Errorf("%s is 0 all the time", name)
		}
	}
	if lines := strings.Count(p.stdout.String(), "\n"); lines < 3 {
		t.Errorf("printed %q", p.stdout.String())
	}
}
