//go:build unix

package main

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/keyturn/keyturn/internal/servertest"
)

// certificate writes a certificate for 127.0.0.1 and its key, and returns a client that trusts it.
func certificate(t *testing.T) (cert, key string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return write("cert.pem", "CERTIFICATE", pair.Certificate[0]), write("key.pem", "PRIVATE KEY", secret), server.Client()
}

// usersFile writes a file of users, whose passwords are "of" and their names.
func usersFile(t *testing.T, lines ...string) string {
	t.Helper()
	for i, name := range lines {
		if strings.ContainsAny(name, ":#") || name == "" {
			continue
		}
		hash, err := bcrypt.GenerateFromPassword([]byte("of "+name), bcrypt.MinCost)
		must(t, err)
		lines[i] = name + ":" + string(hash)
	}
	file := filepath.Join(t.TempDir(), "users")
	must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return file
}

// With users and TLS others may look, and each breaks locks in their own name.
func TestUIUsers(t *testing.T) {
	store := onRedis(t)
	lease := held(t, engine(t, store), "group:7")
	cert, key, client := certificate(t)
	p := command(t, "--store", store, "ui", "--operate", "--listen", "127.0.0.1:0",
		"--auth-file", usersFile(t, "# operators", "", "alice", "bob"), "--tls-cert", cert, "--tls-key", key).start()
	p.says("https://")
	root := strings.TrimSpace(p.stdout.String())
	ask := func(method, path, user, password string, form url.Values) (*http.Response, string) {
		t.Helper()
		req := request(t, method, root+path, form)
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		return answer(t, client, req)
	}
	for _, who := range [][2]string{{"", ""}, {"alice", ""}, {"alice", "of bob"}, {"mallory", "of mallory"}, {"# operators", "x"}} {
		for _, path := range []string{"", "api/locks", "events?page=locks", "?token="} {
			resp, text := ask(http.MethodGet, path, who[0], who[1], nil)
			check(t, resp.StatusCode == http.StatusUnauthorized && strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") && !strings.Contains(text, "group:7"), "%v %q: %s", who, path, resp.Status)
		}
	}
	for range 2 { // the second time from memory
		if resp, text := ask(http.MethodGet, "", "alice", "of alice", nil); resp.StatusCode != 200 || !strings.Contains(text, "group:7") || !strings.Contains(text, "operator alice") {
			t.Errorf("%s: %s", resp.Status, text)
		}
		if resp, _ := ask(http.MethodGet, "", "alice", "of bob", nil); resp.StatusCode != http.StatusUnauthorized {
			t.Error(resp.Status)
		}
	}
	if resp, text := ask(http.MethodPost, "force", "bob", "of bob", takeAway(lease)); resp.StatusCode != 200 {
		t.Errorf("%s: %s", resp.Status, text)
	}
	err := lease.Release(t.Context())
	check(t, err != nil && strings.Contains(err.Error(), "bob: hangs"), "the holder learns: %v", err)
	plain := request(t, http.MethodGet, "http://"+strings.TrimPrefix(root, "https://"), nil)
	if resp, _ := answer(t, http.DefaultClient, plain); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %s", resp.Status)
	}
	if text := p.stderr.String(); strings.Contains(text, "TLS") {
		t.Errorf("strangers fill its log: %s", text)
	}
}

// What would let the wrong people in, or nobody, is refused at the start.
func TestUIRefusesTheseFlags(t *testing.T) {
	servertest.Long(t)
	store := onRedis(t)
	cert, key, _ := certificate(t)
	for _, c := range []struct {
		status int
		says   string
		flags  []string
	}{
		{64, "--tls-cert", []string{"--listen", "0.0.0.0:0", "--auth-file", usersFile(t, "alice")}},
		{64, "--auth-file", []string{"--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key}},
		{64, "--tls-key", []string{"--tls-cert", cert}},
		{64, "exclude", []string{"--auth-file", usersFile(t, "alice"), "--behind-proxy", "X-User"}},
		{64, "name of a header", []string{"--behind-proxy", "X User"}},
		{64, "without a port", []string{"--host", "locks.example:80"}},
		{78, "nosuch", []string{"--auth-file", "/nosuch"}},
		{78, "nobody", []string{"--auth-file", usersFile(t, "# nobody")}},
		{78, "line 2", []string{"--auth-file", usersFile(t, "alice", "bob:{SHA}x")}},
		{78, "line 2", []string{"--auth-file", usersFile(t, "alice", "alice")}},
		{78, "line 1", []string{"--auth-file", usersFile(t, "al\tice")}},
		{78, "key.pem", []string{"--tls-cert", cert, "--tls-key", filepath.Join(t.TempDir(), "key.pem")}},
	} {
		command(t, append([]string{"--store", store, "ui"}, c.flags...)...).ends(c.status).says(c.says)
	}
}
