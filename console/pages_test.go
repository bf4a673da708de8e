package console_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/lockjson"
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
		check(t, !strings.Contains(text, "<form class=\"card act\""), "%s: a form without an operator", path)
		for _, address := range []string{`href="/`, `src="/`, `action="/`} {
			check(t, !strings.Contains(text, address), "%s: an address that only works at the root: %s", path, address)
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
		text := get(t, c, "/key?k=b")
		check(t, !strings.Contains(text, "Nobody holds it") && strings.Contains(text, "Unknown"), "%s", text)
		if res := serve(c, httptest.NewRequest(http.MethodGet, "/api/lock?key=b", nil)); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", res.Status, body(t, res))
		}
	}
	contains(t, get(t, c, "/"), "The store has shown nothing for", "store unavailable")
	contains(t, get(t, c, "/key?k=a"), "im pid 41") // as it was seen
	for _, path := range []string{"/api/lock?key=a", "/api/locks", "/api/graph"} {
		res := serve(c, httptest.NewRequest(http.MethodGet, path, nil))
		check(t, res.StatusCode == http.StatusServiceUnavailable, "%s: what was seen before, as if it were so now: %s", path, res.Status)
	}
	f.fail(nil)
	checktest.Eventually(t, "it is known", func() bool { return strings.Contains(get(t, c, "/key?k=b"), "Nobody holds it") })
}

// A key that the list has not come round to for a while is looked at when somebody opens it: the holder before was shown,
// in JSON as if it were the present one.
func TestAKeyThatWasNotSeenForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 5000 {
			f.put(held(fmt.Sprintf("k%04d", i), 41))
		}
		c := open(t, f)
		get(t, c, "/")
		f.put(held("k0000", 42), held("k0001", 42))
		time.Sleep(6500 * time.Millisecond)
		contains(t, get(t, c, "/api/lock?key=k0000"), `"pid": 42`)
		contains(t, get(t, c, "/key?k=k0001"), "im pid 42")
	})
}

var update = flag.Bool("update", false, "write the files of testdata")

// hashed are the names of the files that a page loads, which follow their content.
var hashed = regexp.MustCompile(`(style|script|icon)-[0-9a-f]{12}`)

// The HTML of each page, as an operator sees it after two looks at a small store. A change of a page shows as
// what it is; go test ./console -run TestGoldenPages -update writes the files.
func TestGoldenPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := held("doc:<1>", 41)
		shared.Mode = driver.ModeShared
		shared.Holders[0].Lingers = true
		recorded := wanted(held("account:bob", 43), 41)
		recorded.Record = &driver.RecordInfo{Owner: owner(41, 9), Size: 12, Left: time.Hour}
		c := open(t, newFake(wanted(held("account:alice", 41), 43, 42), recorded, shared,
			driver.LockInfo{Key: "nobody's\u202e42", Holders: []driver.Holder{{Owner: "9f2c", Left: -1}}},
		),
			console.WithTitle("im prod"), console.WithOperator(alice), console.WithTraceURL("https://tempo.example/trace/{trace_id}"),
			console.WithRules(func() []coverage.Target {
				return []coverage.Target{
					{Name: "/im.Groups/Join", Rules: []coverage.Rule{{Key: "group:{id}", RunUnlocked: true}, {Once: true, Key: "m", Problem: "no such field"}}},
					{Name: "/im.Groups/List"},
				}
			}))
		get(t, c, keyPath("account:bob"))
		time.Sleep(1500 * time.Millisecond) // the second look
		for name, path := range map[string]string{
			"locks": "/", "key": keyPath("account:bob"), "waits": "/waits", "hot": "/hot", "processes": "/processes", "rules": "/rules",
		} {
			got := hashed.ReplaceAll([]byte(get(t, c, path)), []byte("$1-HASH"))
			file := filepath.Join("testdata", name+".html")
			if *update {
				must(t, os.WriteFile(file, got, 0o644))
			}
			want, err := os.ReadFile(file)
			check(t, err == nil && bytes.Equal(got, want), "%s, %v: got\n%s", file, err, got)
		}
	})
}

func TestJSON(t *testing.T) {
	t.Parallel()
	c := open(t, newFake(wanted(held("a", 41), 42), wanted(held("b", 42), 41), held("c", 43)))
	var all []lockjson.Lock
	var one lockjson.Lock
	var graph struct {
		Waits     []struct{ Key string }
		Deadlocks [][]struct {
			Key    string
			Waiter lockjson.Process
			Holder lockjson.Process
		}
	}
	for path, v := range map[string]any{"/api/locks?waiting=1": &all, "/api/lock?key=a": &one, "/api/graph": &graph} {
		wantIs(t, path, json.Unmarshal([]byte(get(t, c, path)), v), nil)
	}
	check(t, len(all) == 2 && all[0].Key == "a" && len(all[0].Waiters) == 1 && all[0].Holders[0].PID == 41, "%+v", all)
	check(t, one.Key == "a" && *one.Holders[0].SinceMS >= 90_000 && one.Holders[0].TraceID != "", "%+v", one)
	check(t, len(graph.Waits) == 2 && len(graph.Deadlocks) == 1 && len(graph.Deadlocks[0]) == 2 && graph.Deadlocks[0][0].Waiter.Host == "im", "%+v", graph)
	if res := serve(c, httptest.NewRequest(http.MethodGet, "/api/lock?key=%7B", nil)); res.StatusCode != http.StatusBadRequest {
		t.Error(res.Status)
	}
}

// With core.WithKeyFilter no page, event or JSON has a key that the filter hides. Keys that it shows alike are told
// apart, and can be opened and broken.
func TestKeyFilter(t *testing.T) {
	t.Parallel()
	f := newFake(wanted(held("user:4711", 41), 42), wanted(held("user:4712", 42), 41), held("group:7", 43),
		driver.LockInfo{Key: "user:4713", Record: &driver.RecordInfo{Owner: owner(41, 9)}})
	f.filter = func(key string) string {
		if strings.HasPrefix(key, "user:") {
			return "user:***"
		}
		return key
	}
	c := open(t, f, console.WithOperator(alice))
	secret := regexp.MustCompile(`user(:|%3A)4`)
	var all []string
	for _, path := range []string{"/", "/?prefix=user", "/waits", "/hot", "/processes", "/key?k=user%3A4711", "/api/locks", "/api/lock?key=user%3A4711", "/api/graph"} {
		text := get(t, c, path)
		all = append(all, regexp.MustCompile(`user:\*\*\*#[0-9a-f]{12}`).FindAllString(text, -1)...)
		if path != "/hot" { // of which the first sample says nothing
			contains(t, text, "user:***")
		}
		check(t, !secret.MatchString(text), "%s: %s", path, text)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 2 {
		t.Errorf("%q", all)
	}
	contains(t, get(t, c, "/"), ">group:7<")
	if text := get(t, c, "/waits"); !strings.Contains(text, "Deadlock") || strings.Contains(text, "keyturn force") {
		t.Errorf("a command without its key: %s", text)
	}

	// By its name, and by the key that an operator knows.
	name := all[0]
	text := get(t, c, keyPath(name))
	contains(t, text, `name="key" value="`+name+`"`, "im pid 4")
	pid := 41
	if !strings.Contains(text, leaseOf(held("", 41))) {
		pid = 42
	}
	if res := post(c, "/force", form(name, leaseOf(held("", pid)))); res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", res.Status, body(t, res))
	}
	pid = 41 + 42 - pid
	key := map[int]string{41: "user:4711", 42: "user:4712"}[pid]
	if res := post(c, "/force", form(key, leaseOf(held("", pid)))); res.StatusCode != http.StatusOK || secret.MatchString(body(t, res)) {
		t.Error(res.Status)
	}
	contains(t, get(t, c, keyPath("user:4713")), "Done once, and remembered", "user:***#")
	if res := post(c, "/forget", form("user:4713")); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	said := f.said()
	check(t, len(said) == 3, "%q", said)

	// Of a name from before this console's start nobody knows the key, so nothing is done.
	if res := post(c, "/force", form("user:***#0123456789ab", leaseOf(held("", 41)))); res.StatusCode != http.StatusConflict {
		t.Errorf("%s: %s", res.Status, body(t, res))
	}
	if res := serve(c, httptest.NewRequest(http.MethodGet, "/api/lock?key=user%3A***%230123456789ab", nil)); res.StatusCode == http.StatusOK {
		t.Error("it is shown as free")
	}
}

func keyPath(key string) string { return "/key?" + url.Values{"k": {key}}.Encode() }
