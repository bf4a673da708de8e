//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestConsole: the console finds the deadlock. A form of its page ends it, and nothing stays behind.
func TestConsole(t *testing.T) {
	t.Parallel()
	p := command(t, nil, "-console")
	p.Stdout = nil
	pipe, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(pipe).ReadString('\n')
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(line)
	if address == "" {
		_ = p.Wait()
		t.Fatalf("printed %q\n%s", line, p.stderr.String())
	}
	type wait struct {
		Key    string
		Token  json.Number
		Holder struct{ Owner string }
	}
	graph := func() (g struct{ Deadlocks [][]wait }) {
		t.Helper()
		resp, err := http.Get(address + "api/graph")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&g); err != nil {
			t.Fatal(err)
		}
		return g
	}
	var deadlock []wait
	for end := time.Now().Add(40 * time.Second); deadlock == nil; time.Sleep(100 * time.Millisecond) {
		if all := graph().Deadlocks; len(all) > 0 {
			deadlock = all[0]
		} else if time.Now().After(end) {
			t.Fatal("no deadlock is found")
		}
	}
	if len(deadlock) != 2 || !strings.HasPrefix(deadlock[0].Key, "account:") {
		t.Errorf("%+v", deadlock)
	}
	victim := deadlock[0]
	resp, err := http.PostForm(address+"force", url.Values{
		"key": {victim.Key}, "confirm": {victim.Key}, "reason": {"deadlock"}, "lease": {victim.Token.String() + " " + victim.Holder.Owner},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
	for end := time.Now().Add(10 * time.Second); len(graph().Deadlocks) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the deadlock stays")
		}
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.stderr.String())
	}
}
