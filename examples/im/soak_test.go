package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSoak: the service serves through pauses of Redis, without a wrong group, and says how large it is.
func TestSoak(t *testing.T) {
	t.Parallel()
	p := command(t, nil, "-for", "5s")
	if code := p.run(t); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	served, goroutines := 0.0, 0.0
	for _, line := range regexp.MustCompile(`(?m)^\| \d+s \| (\d+) \|.*$`).FindAllStringSubmatch(p.stdout.String(), -1) {
		n, _ := strconv.ParseFloat(line[1], 64)
		served += n
		cells := strings.Split(line[0], " | ")
		if len(cells) != 9 {
			t.Fatalf("%q", line[0])
		}
		n, _ = strconv.ParseFloat(cells[5], 64)
		goroutines += n
	}
	if served == 0 || goroutines == 0 {
		t.Errorf("nothing was served, or nobody told of goroutines\n%s%s", p.stdout.String(), p.stderr.String())
	}
}
