package zkstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/storeurl"
	"github.com/keyturn/keyturn/store/zkstore"
)

// Options are refused before any I/O.
func TestOptions(t *testing.T) {
	for name, opt := range map[string]zkstore.Option{
		"nil": nil, "root": zkstore.WithRoot("keyturn"), "root with an empty part": zkstore.WithRoot("/a//b"), "root /": zkstore.WithRoot("/"),
		"the server's own root": zkstore.WithRoot("/zookeeper/x"), "session": zkstore.WithSession(time.Millisecond), "auth": zkstore.WithAuth("digest", nil),
		"acl": zkstore.WithACL(nil), "tls": zkstore.WithTLS(nil), "buffer": zkstore.WithBuffer(1), "logger": zkstore.WithLogger(nil),
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
	u, err := storeurl.Parse("zk://me:secret@" + zktest.Shared(t).Addr() + newRoot() + "?session=1s&buffer=100000")
	must(t, err)
	must(t, u.Prepare(t.Context()))
	s, err := u.Open(t.Context())
	must(t, err)
	storetest.Use(t, s, "k")
	must(t, s.Close())
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

// TestAwayAtStart: New asked its server, and failed without an answer or waited for it without a bound.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	root := newRoot()
	storetest.AwayAtStart(t, zktest.Shared(t).Addr(), func(addr string) (driver.Store, error) {
		return storeurl.Open(t.Context(), "zk://"+addr+root+"?session=2s")
	})
}
