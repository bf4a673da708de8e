//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/keyturn/keyturn/core"
)

// request is one to the console; form: what a browser posts.
func request(t *testing.T, method, address string, form url.Values) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	must(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req
}

func answer(t *testing.T, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(text)
}

// takeAway is the form that takes the key of a lease away because it hangs.
func takeAway(l *core.Lease) url.Values {
	return url.Values{"key": {l.Key()}, "confirm": {l.Key()}, "reason": {"hangs"}, "lease": {strconv.FormatUint(l.Token(), 10) + " " + l.Owner()}}
}

// TestUI: only who has the token sees the console and takes a key away with it.
func TestUI(t *testing.T) {
	store := onRedis(t)
	lease := held(t, engine(t, store), "group:7")
	host := map[bool]string{true: "127.0.0.5", false: "127.0.0.1"}[runtime.GOOS == "linux"] // elsewhere there is one address
	p := command(t, "--store", store, "ui", "--operate", "--title", "im prod", "--listen", host+":0").start()
	p.says("http://")
	with, err := url.Parse(strings.TrimSpace(p.stdout.String()))
	if err != nil || with.Hostname() != host {
		t.Fatalf("%q, %v", p.stdout.String(), err)
	}
	root := "http://" + with.Host + "/"
	jar, err := cookiejar.New(nil)
	must(t, err)
	friend, stranger := &http.Client{Jar: jar}, new(http.Client)
	get := func(c *http.Client, address string) (*http.Response, string) {
		t.Helper()
		return answer(t, c, request(t, http.MethodGet, address, nil))
	}
	for _, address := range []string{root, root + "?token=", root + "?token=wrong", root + "api/locks", root + "events?page=locks"} {
		if resp, text := get(stranger, address); resp.StatusCode != http.StatusForbidden || strings.Contains(text, "group:7") {
			t.Errorf("%s: %s", address, resp.Status)
		}
	}
	resp, text := get(friend, with.String())
	check(t, resp.StatusCode == http.StatusOK && strings.Contains(text, "group:7") && strings.Contains(text, "im prod") && resp.Request.URL.RawQuery == "", "%s %s: %s", resp.Request.URL, resp.Status, text)
	// A page of a stranger whose name leads here now: not even with the cookie.
	req := request(t, http.MethodGet, root, nil)
	req.Host = "evil.example"
	for _, c := range jar.Cookies(with) {
		req.AddCookie(c)
	}
	if resp, _ = answer(t, stranger, req); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %s", resp.Status)
	}
	if resp, _ = answer(t, friend, request(t, http.MethodPost, root+"force", takeAway(lease))); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	if err := lease.Release(t.Context()); err == nil || !strings.Contains(err.Error(), ": hangs") {
		t.Errorf("the holder learns: %v", err)
	}
	p.says(`lease taken away by force" key=group:7 reason="`) // without -v, too
	must(t, p.Process.Signal(syscall.SIGINT))
	p.ends(0)
}

type everywhere struct{ net.Listener }

func (everywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6zero, Port: 80} }

func TestUIAddressOfAnIPv6Host(t *testing.T) {
	for _, host := range []string{"::1", "[::1]"} {
		f := uiFlags{hosts: []string{host}}
		if url, _ := f.address(everywhere{}); url != "http://[::1]:80/" {
			t.Errorf("--host %s: %s", host, url)
		}
	}
}

// Nobody from elsewhere gets in, unless a proxy has asked who it is.
func TestUIBehindAProxy(t *testing.T) {
	store := onRedis(t)
	command(t, "--store", store, "ui", "--listen", "0.0.0.0:0").ends(64).says("--behind-proxy")
	command(t, "--store", store, "ui", "--listen", "nowhere").ends(64).says("HOST:PORT")
	p := command(t, "--store", store, "ui", "--operate", "--behind-proxy", "X-Forwarded-User", "--host", "locks.example").start()
	p.says("http://")
	root := strings.TrimSpace(p.stdout.String())
	for _, c := range []struct {
		user, host string
		status     int
	}{
		{"", "locks.example", 403},
		{"a\tb", "locks.example", 403},
		{"mallory|alice", "locks.example", 403}, // the client's header, and the proxy's
		{"alice", "evil.example", 421},
		{"alice", "locks.example", 200},
	} {
		req := request(t, http.MethodGet, root, nil)
		req.Host = c.host
		for name := range strings.SplitSeq(c.user, "|") {
			req.Header.Add("X-Forwarded-User", name)
		}
		resp, text := answer(t, http.DefaultClient, req)
		check(t, resp.StatusCode == c.status && (c.status != 200 || strings.Contains(text, "operator alice")), "%+v: %s", c, resp.Status)
	}
}
