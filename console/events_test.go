package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/console"
)

type message struct {
	Now   int64
	Lists map[string][]string
	Parts map[string]string
}

// listen opens a stream. next returns the next message; ok is false when the stream has ended.
func listen(t *testing.T, url string) (next func() (m message, ok bool), status int, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	return func() (m message, ok bool) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return m, false
			}
			if text, is := strings.CutPrefix(line, "data: "); is {
				wantNil(t, json.Unmarshal([]byte(text), &m))
				return m, true
			}
		}
	}, res.StatusCode, cancel
}

// start serves a console, below a path as programs do. The server has a timeout for responses.
func start(t *testing.T, c *console.Console) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/locks/", http.StripPrefix("/debug/locks", c))
	server := httptest.NewUnstartedServer(mux)
	server.Config.WriteTimeout = time.Second
	server.Start()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL + "/debug/locks/"
}

const fast = 200 * time.Millisecond

func TestAStreamTellsWhatChanges(t *testing.T) {
	t.Parallel()
	f := newFake(held("a", 41))
	c := open(t, f, console.WithInterval(fast))
	next, status, _ := listen(t, start(t, c)+"events?page=locks")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	first, _ := next()
	if len(first.Lists["rows"]) != 1 || len(first.Parts) < 3 || !strings.Contains(first.Parts[first.Lists["rows"][0]], `href="key?k=a"`) {
		t.Fatalf("%+v", first)
	}
	// Longer than the server's timeout.
	time.Sleep(1200 * time.Millisecond)
	f.put(wanted(held("b", 42), 43))
	var m message
	for end := time.Now().Add(10 * time.Second); len(m.Lists["rows"]) != 2; {
		var ok bool
		if m, ok = next(); !ok || time.Now().After(end) {
			t.Fatalf("the stream ended, or b did not come: %+v", m)
		}
	}
	// The one that somebody waits for comes first.
	b, a := m.Lists["rows"][0], m.Lists["rows"][1]
	check(t, a == first.Lists["rows"][0] && strings.Contains(m.Parts[b], "k=b"), "%+v", m)
	wantNil(t, c.Close())
	for _, ok := next(); ok; _, ok = next() { // it ends
	}
}

// Rows whose lease goes on are sent once, although time passes.
func TestNothingNewIsNotSent(t *testing.T) {
	t.Parallel()
	f := newFake()
	for i := range 20 {
		info := wanted(held(fmt.Sprint("k", i), 41), 42)
		info.Holders[0].HeldFor = time.Duration(i) * time.Minute // also for longer than a band is
		f.put(info)
	}
	next, _, end := listen(t, start(t, open(t, f, console.WithInterval(fast)))+"events?page=locks")
	if first, _ := next(); len(first.Lists["rows"]) != 20 {
		t.Fatalf("%+v", first)
	}
	time.AfterFunc(3*time.Second, end)
	n := 0
	for m, ok := next(); ok; m, ok = next() {
		n += len(m.Parts)
	}
	if n > 100 { // of 300; once a minute, old bars are cut anew
		t.Errorf("%d parts were sent again", n)
	}
}

type quietViewer struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (v *quietViewer) SetWriteDeadline(at time.Time) error { v.deadline = at; return nil }

// A stream with nothing to say says so, and has no deadline meanwhile, at which HTTP/2 would end it.
func TestAQuietStreamStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		v := &quietViewer{ResponseRecorder: httptest.NewRecorder()}
		open(t, newFake()).ServeHTTP(v, httptest.NewRequest(http.MethodGet, "/events?page=locks", http.NoBody).WithContext(ctx))
		check(t, strings.Count(v.Body.String(), "\n: still here\n") == 3 && v.deadline.IsZero(), "%v, %s", v.deadline, v.Body)
	})
}

func TestTooManyViewers(t *testing.T) {
	t.Parallel()
	url := start(t, open(t, newFake()))
	statuses := make(map[int]int)
	for range 66 {
		_, status, _ := listen(t, url+"events?page=locks")
		statuses[status]++
	}
	check(t, statuses[200] == 64 && statuses[503] == 2, "%v", statuses)
	if _, status, _ := listen(t, url+"events?page=none"); status != http.StatusNotFound {
		t.Error(status)
	}
}
