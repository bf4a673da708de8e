package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/driver"
)

// TestPages looks at what the golden pages do not show: filters, and keys of other kinds.
func TestPages(t *testing.T) {
	t.Parallel()
	lingering := held("user:7", 43)
	lingering.Holders[0].Lingers = true
	shared := held("doc:1", 41)
	shared.Mode = driver.ModeShared
	shared.Holders = append(shared.Holders, held("doc:1", 42).Holders...)
	f := newFake(wanted(held("group:7", 41), 42, 43), lingering, shared,
		driver.LockInfo{Key: "foreign", Holders: []driver.Holder{{Owner: "9f2c", Left: -1}}},
		driver.LockInfo{Key: "msg:1", Record: &driver.RecordInfo{Owner: owner(41, 9), Size: 12, Left: time.Hour}},
		wanted(held("group:8", 42), 41),
	)
	c := open(t, f)
	for path, wants := range map[string][]string{
		"/?prefix=group":       {"2 keys that match", `value="group"`},
		"/?rule=PUT+%2Fgroups": {"2 keys that match"},
		"/?waiting=1":          {"2 keys that match", "checked"},
		"/?prefix=none":        {"No key that is held or wanted matches"},
		"/?limit=2":            {"2 of 5 keys.", `href="./?limit=4"`},
		"/key?k=user%3A7":      {"perhaps nobody uses it"},
		"/key?k=msg%3A1":       {"Nobody holds it", "Done once, and remembered", "12 bytes"},
		"/key?k=foreign":       {"no end", "unknown", "none"},
		"/key?k=free":          {"Nobody holds it", "Nobody waits"},
		"/key":                 {"Open a key"},
		"/waits":               {"Deadlock, for", "keyturn force --owner", "group:7", "<svg class=\"graph\"", "Who waits for whom"},
		"/hot?window=all":      {"since the first look"},
	} {
		text := get(t, c, path)
		contains(t, text, wants...)
		if strings.Contains(text, "<form class=\"card act\"") {
			t.Errorf("%s: a form without an operator", path)
		}
		for _, address := range []string{`href="/`, `src="/`, `action="/`} {
			if strings.Contains(text, address) {
				t.Errorf("%s: an address that only works at the root: %s", path, address)
			}
		}
	}
	if text := get(t, open(t, newFake()), "/"); !strings.Contains(text, "All quiet") || strings.Contains(text, "Rules") {
		t.Errorf("of nothing:\n%s", text)
	}
}

// Nobody knows whether a key is free that the store says nothing of.
func TestAKeyThatNobodyKnows(t *testing.T) {
	t.Parallel()
	f := newFake(held("a", 41))
	c := open(t, f, console.WithInterval(200*time.Millisecond))
	get(t, c, "/")
	f.fail(&driver.UnavailableError{Op: "inspect", Err: driver.ErrUnavailable})
	for range 2 { // at the second time it is known that the store is out
		if text := get(t, c, "/key?k=b"); strings.Contains(text, "Nobody holds it") || !strings.Contains(text, "Unknown") {
			t.Errorf("%s", text)
		}
		if res := serve(c, httptest.NewRequest(http.MethodGet, "/api/lock?key=b", nil)); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", res.Status, body(t, res))
		}
	}
	contains(t, get(t, c, "/"), "The store has shown nothing for", "store unavailable")
	contains(t, get(t, c, "/key?k=a"), "im pid 41") // as it was seen
	f.fail(nil)
	for end := time.Now().Add(30 * time.Second); !strings.Contains(get(t, c, "/key?k=b"), "Nobody holds it"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it stays unknown")
		}
	}
}
