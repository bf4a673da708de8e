package zkstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/storeurl"
	"github.com/keyturn/keyturn/store/zkstore"
)

// Options are refused before any I/O, all at once.
func TestOptions(t *testing.T) {
	for name, opt := range map[string]zkstore.Option{
		"nil": nil, "root": zkstore.WithRoot("keyturn"), "root with an empty part": zkstore.WithRoot("/a//b"), "root /": zkstore.WithRoot("/"),
		"the server's own root": zkstore.WithRoot("/zookeeper/x"), "session": zkstore.WithSession(time.Millisecond), "auth": zkstore.WithAuth("digest", nil),
		"acl": zkstore.WithACL(nil), "tls": zkstore.WithTLS(nil), "dialer": zkstore.WithDialer(nil), "buffer": zkstore.WithBuffer(1), "logger": zkstore.WithLogger(nil),
	} {
		if _, err := zkstore.New(t.Context(), []string{"127.0.0.1:1"}, opt); !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, servers := range [][]string{nil, {""}, {"a:b:c"}, {":2181"}} {
		if _, err := zkstore.New(t.Context(), servers); !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("servers %q: %v", servers, err)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t).Addr()
	u, err := storeurl.Parse("zk://me:secret@" + addr + newRoot() + "?session=1s&buffer=100000")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	opened, err := u.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*zkstore.Store)
	g := mustAcquire(t, s, request("k", time.Minute))
	if err := s.Release(t.Context(), g); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for url, want := range map[string]error{
		"zk:":                           storeurl.ErrInvalidURL,
		"zk://me@a":                     storeurl.ErrInvalidURL,
		"zk://me:secret@a?nosuch=1":     storeurl.ErrInvalidURL,
		"zk://me:secret@a/x//y":         driver.ErrInvalidOption,
		"zks://me:secret@a?session=1ns": driver.ErrInvalidOption,
	} {
		_, err := storeurl.Open(t.Context(), url)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
