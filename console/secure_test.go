package console_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

func alice(*http.Request) (string, bool) { return "alice", true }

func leaseOf(info driver.LockInfo) string { return "7 " + info.Holders[0].Owner }

func form(key string, leases ...string) url.Values {
	return url.Values{"key": {key}, "confirm": {key}, "reason": {"hangs"}, "lease": leases}
}

func TestForce(t *testing.T) {
	t.Parallel()
	f := newFake(held("a", 41), held("b", 41), driver.LockInfo{Key: "c", Record: &driver.RecordInfo{}})
	c := open(t, f, console.WithOperator(alice))
	contains(t, get(t, c, "/key?k=a"), "operator alice", `name="lease" value="7 `+owner(41, 41)+`"`, `name="reason" required maxlength="249"`,
		"This lease also has 1 other key</b>", ">b</a>")
	if res := post(c, "/force", form("a", leaseOf(held("a", 41)))); res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", res.Status, body(t, res))
	} else {
		contains(t, body(t, res), "was taken from im pid 41", "Nobody holds it")
	}
	contains(t, get(t, c, "/key?k=c"), `action="forget"`)
	if res := post(c, "/forget", form("c")); res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", res.Status, body(t, res))
	}
	// A page that reloads by itself would take away what an operator without script types.
	for path, reloads := range map[string]bool{"/": true, "/key?k=b": false, "/key": false} {
		check(t, strings.Contains(get(t, c, path), `http-equiv="refresh"`) == reloads, "%s: reloads by itself: %v", path, !reloads)
	}
	said := f.said()
	check(t, len(said) == 2 && said[0] == "alice: hangs" && said[1] == "alice: hangs", "%q", said)
}

// Nobody has to choose anew what a form had when it was rejected.
func TestARejectedFormKeepsWhatWasChosen(t *testing.T) {
	t.Parallel()
	two := held("a", 41)
	two.Mode = driver.ModeShared
	two.Holders = append(two.Holders, held("a", 42).Holders...)
	c := open(t, newFake(two), console.WithOperator(alice))
	get(t, c, "/")
	first, second := "7 "+two.Holders[0].Owner, "7 "+two.Holders[1].Owner
	contains(t, get(t, c, "/key?k=a"), `value="`+first+`" checked`, `value="`+second+`" checked`)
	wrong := form("a", second)
	wrong.Set("confirm", "b")
	contains(t, body(t, post(c, "/force", wrong)), `value="hangs"`, `value="`+first+`">`, `value="`+second+`" checked`)
	gone := form("a", "7 "+owner(43, 43))
	contains(t, body(t, post(c, "/force", gone)), `value="`+first+`" checked`, `value="`+second+`" checked`)
}

func TestForceIsRefused(t *testing.T) {
	t.Parallel()
	was := leaseOf(held("a", 41))
	without := func(name string) url.Values {
		v := form("a", was)
		v.Del(name)
		return v
	}
	with := func(name, value string) url.Values {
		v := form("a", was)
		v.Set(name, value)
		return v
	}
	for name, test := range map[string]struct {
		form   url.Values
		err    error
		status int
		says   string
	}{
		"somebody else has it by now":   {form("a", "6 "+owner(41, 40)), nil, 409, "im pid 41 has the key by now"},
		"no reason":                     {without("reason"), nil, 400, "say why"},
		"a reason that is too long":     {with("reason", strings.Repeat("x", 250)), nil, 400, "too long"},
		"the key was not typed":         {without("confirm"), nil, 400, "is not the key"},
		"no lease: it would end all":    {without("lease"), nil, 400, "no lease was chosen"},
		"a lease without a token":       {with("lease", owner(41, 41)), nil, 400, "no such lease"},
		"no key":                        {url.Values{}, nil, 400, "no such key"},
		"the store is out":              {form("a", was), &driver.UnavailableError{Op: "force", Err: errors.New("x")}, 503, "does not answer"},
		"the store does not say":        {form("a", was), errors.Join(driver.ErrOutcomeUnknown, driver.ErrUnavailable), 504, "may have been done"},
		"a character that is not right": {form("a", was), &driver.OptionError{Option: "reason"}, 400, "not allowed"},
		"the store cannot":              {form("a", was), &driver.UnsupportedError{Feature: "inspection"}, 501, "can&#39;t"},
		"a bug":                         {form("a", was), errors.New("bug"), 500, "bug"},
	} {
		f := newFake(held("a", 41))
		c := open(t, f, console.WithOperator(alice))
		get(t, c, "/") // before the store fails
		f.fail(test.err)
		res := post(c, "/force", test.form)
		text := body(t, res)
		check(t, res.StatusCode == test.status && strings.Contains(text, test.says), "%s: %s, want %d %q: %s", name, res.Status, test.status, test.says, text)
		said := f.said()
		check(t, len(said) <= 0, "%s: it was done: %q", name, said)
	}
}

func TestWhoMay(t *testing.T) {
	t.Parallel()
	f := newFake(held("a", 41))
	nobody := func(*http.Request) (string, bool) { return "mallory", false }
	send := func(c http.Handler, change func(*http.Request)) int {
		r := httptest.NewRequest(http.MethodPost, "/force", strings.NewReader(form("a", leaseOf(held("a", 41))).Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		change(r)
		return serve(c, r).StatusCode
	}
	ours := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }
	for name, status := range map[string]int{
		"read only":          send(open(t, f), ours),
		"no operator":        send(open(t, f, console.WithOperator(nobody)), ours),
		"no name":            send(open(t, f, console.WithOperator(func(*http.Request) (string, bool) { return "", true })), ours),
		"another site":       send(open(t, f, console.WithOperator(alice)), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }),
		"another name of it": send(open(t, f, console.WithOperator(alice)), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }),
		"another origin":     send(open(t, f, console.WithOperator(alice)), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }),
		"nobody may look":    send(open(t, f, console.WithOperator(alice), console.WithReader(func(*http.Request) bool { return false })), ours),
	} {
		check(t, status == http.StatusForbidden, "%s: %d", name, status)
	}
	page := get(t, open(t, newFake(held("a", 41)), console.WithOperator(nobody)), "/key?k=a") // a form would end in that 403
	check(t, strings.Contains(page, ">read only<") && !strings.Contains(page, `method="post"`), "%s", page)
	c := open(t, f, console.WithOperator(alice))
	res := serve(c, httptest.NewRequest(http.MethodGet, "/force?key=a&confirm=a&reason=x", nil))
	check(t, res.StatusCode == http.StatusMethodNotAllowed, "by GET: %s", res.Status)
	said := f.said()
	check(t, len(said) <= 0, "it was done: %q", said)
	if status := send(c, ours); status != http.StatusOK {
		t.Errorf("the operator: %d", status)
	}
}

// A page of a stranger that has its name point to this server (DNS rebinding) gets nothing.
func TestHosts(t *testing.T) {
	t.Parallel()
	c := open(t, newFake(), console.WithHosts("evil.example"), console.WithHosts("localhost", "127.0.0.1", "[::1]"))
	for host, want := range map[string]int{
		"localhost:8080": 200, "LOCALHOST": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "[::1]": 200,
		"evil.example": 421, "evil.example:80": 421, "localhost.evil.example": 421, "": 421, "127.0.0.1.evil.example:80": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		got := serve(c, r).StatusCode
		check(t, got == want, "%q: %d, want %d", host, got, want)
	}
}

// A trace id is no part of whose address it is. It was one in the host.
func TestTraceURLs(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"javascript:{trace_id}", "https://tempo.example/", "https://{trace_id}.example/", "https://tempo.example:{trace_id}/"} {
		_, err := console.New(newFake(), console.WithTraceURL(template))
		check(t, errors.Is(err, driver.ErrInvalidOption), "%s: %v", template, err)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	c := open(t, newFake())
	for _, path := range []string{"/", "/key?k=a", "/none", "/events?page=none"} {
		h := serve(c, httptest.NewRequest(http.MethodGet, path, nil)).Header
		csp := h.Get("Content-Security-Policy")
		check(t, strings.Contains(csp, "default-src 'none'") && !strings.Contains(csp, "unsafe") && strings.Contains(csp, "frame-ancestors 'none'"), "%s: %q", path, csp)
		check(t, h.Get("X-Content-Type-Options") == "nosniff" && h.Get("Referrer-Policy") == "no-referrer" && h.Get("Cache-Control") == "no-store", "%s: %v", path, h)
	}
	text := get(t, c, "/")
	for _, kind := range []string{"style", "script"} {
		at := strings.Index(text, `"`+kind+"-")
		name, _, _ := strings.Cut(text[at+1:], `"`)
		h := serve(c, httptest.NewRequest(http.MethodGet, "/"+name, nil)).Header
		check(t, strings.Contains(h.Get("Cache-Control"), "immutable") && strings.HasPrefix(h.Get("Content-Type"), "text/"), "%s: %v", name, h)
	}
}

// Keys, rules, traces and the values of foreign clients come from strangers.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>'` + "`" + `${x}`
	info := held(evil, 41)
	info.Holders[0].Rule = evil
	info.Holders[0].Trace = "javascript:alert(1)"
	info = wanted(info, 42)
	info.Waiters[0].Rule, info.Waiters[0].Trace = evil, evil
	hidden := held("user:\u202e24", 41)
	f := newFake(info, hidden, wanted(driver.LockInfo{Key: "z" + evil, Holders: []driver.Holder{{Owner: evil}}}, 43))
	c := open(t, f, console.WithTitle("<script>"), console.WithOperator(func(*http.Request) (string, bool) { return evil, true }),
		console.WithTraceURL("https://tempo.example/{trace_id}"),
		console.WithRules(func() []coverage.Target { return []coverage.Target{{Name: evil, Rules: []coverage.Rule{{Key: evil}}}} }))
	for _, path := range []string{"/", "/?prefix=" + url.QueryEscape(evil) + "&rule=" + url.QueryEscape(evil), "/key?k=" + url.QueryEscape(evil), "/key?k=none" + url.QueryEscape(evil), "/processes", "/waits", "/hot?window=" + url.QueryEscape(evil), "/rules"} {
		text := get(t, c, path)
		check(t, !strings.Contains(text, "<script>") && !strings.Contains(text, `="javascript:`) && !strings.Contains(text, "\u202e"), "%s:\n%s", path, text)
	}
}
