package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/driver"
)

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
		if secret.MatchString(text) {
			t.Errorf("%s: %s", path, text)
		}
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
	if said := f.said(); len(said) != 3 {
		t.Errorf("%q", said)
	}

	// Of a name from before this console's start nobody knows the key, so nothing is done.
	if res := post(c, "/force", form("user:***#0123456789ab", leaseOf(held("", 41)))); res.StatusCode != http.StatusConflict {
		t.Errorf("%s: %s", res.Status, body(t, res))
	}
	if res := serve(c, httptest.NewRequest(http.MethodGet, "/api/lock?key=user%3A***%230123456789ab", nil)); res.StatusCode == http.StatusOK {
		t.Error("it is shown as free")
	}
}

func keyPath(key string) string { return "/key?" + url.Values{"k": {key}}.Encode() }
