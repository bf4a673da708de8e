//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must = checktest.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type wait struct {
	Key    string
	Token  json.Number
	Holder struct{ Owner string }
}

// TestConsole: the console finds the deadlock. A form of its page ends it, and nothing stays behind.
func TestConsole(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, out)
		_ = out.CloseWithError(err)
		ended <- err
	}()
	line, _ := bufio.NewReader(said).ReadString('\n')
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(line)
	if address == "" {
		t.Fatalf("printed %q: %v", line, <-ended)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	graph := func() (g struct{ Deadlocks [][]wait }) {
		t.Helper()
		resp, err := client.Get(address + "api/graph")
		must(t, err)
		defer resp.Body.Close()
		must(t, json.NewDecoder(resp.Body).Decode(&g))
		return g
	}
	await := func(what string, n int) [][]wait {
		t.Helper()
		for end := time.Now().Add(40 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			if all := graph().Deadlocks; len(all) == n {
				return all
			}
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	deadlock := await("no deadlock is found", 1)[0]
	if len(deadlock) != 2 || !strings.HasPrefix(deadlock[0].Key, "account:") {
		t.Errorf("%+v", deadlock)
	}
	victim := deadlock[0]
	resp, err := client.PostForm(address+"force", url.Values{
		"key": {victim.Key}, "confirm": {victim.Key}, "reason": {"deadlock"}, "lease": {victim.Token.String() + " " + victim.Holder.Owner},
	})
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
	await("the deadlock stays", 0)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
