//go:build unix

package main

import (
	"bufio"
	"encoding/xml"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestObserve: the trace of a blocked request with the link to the one that held
// the key, metrics from every process, and an end without a fault.
func TestObserve(t *testing.T) {
	t.Parallel()
	svg := filepath.Join(t.TempDir(), "trace.svg")
	p := command(t, nil, "-observe", "-svg", svg)
	p.Stdout = nil
	pipe, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	urls := make(map[string]string)
	for out := bufio.NewScanner(pipe); len(urls) < 5 && out.Scan(); {
		printed.WriteString(out.Text() + "\n")
		if m := regexp.MustCompile(`^  (client|gateway \d|service \d) +(http://127\.0\.0\.1:\d+/metrics)$`).FindStringSubmatch(out.Text()); m != nil {
			urls[m[1]] = m[2]
		}
	}
	if len(urls) < 5 {
		_ = p.Wait()
		t.Fatalf("printed %s\n%s", printed.String(), p.stderr.String())
	}
	for _, want := range []string{
		`service \d +keyturn\.acquire  group-members  granted  blocked by \[1\] .*\.`,
		`service \d +keyturn\.hold  released .*#`,
		`service \d +keyturn\.acquire  group-members  granted .*\[1\]`,
		`gateway \d +(PUT|DELETE) /groups/:id/members/:user`,
		`client +client`,
	} {
		if !regexp.MustCompile(want).MatchString(printed.String()) {
			t.Errorf("not printed: %s\n%s", want, printed.String())
		}
	}
	measured := ""
	for _, service := range []string{"service 1", "service 2"} {
		resp, err := http.Get(urls[service])
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		measured += string(text)
	}
	for _, want := range []string{
		`keyturn_wait_duration_seconds_count{keyturn_mode="exclusive",keyturn_outcome="granted",keyturn_rule="group-members",keyturn_store="redis"}`,
		`keyturn_conflicts_total{keyturn_mode="exclusive",keyturn_rule="group-members",keyturn_store="redis"}`,
	} {
		if !strings.Contains(measured, want) {
			t.Errorf("no service measured %s", want)
		}
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(picture, new(struct{})); err != nil {
		t.Error(err)
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, pipe)
	if err := p.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, p.stderr.String())
	}
}
