package etcdstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// TestURL: stores of one URL see the same leases; one with another prefix does not.
func TestURL(t *testing.T) {
	t.Parallel()
	url := "etcd://" + etcdtest.Shared(t).Addr()
	openURL := func(url string) driver.Store {
		s, err := storeurl.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b, other := openURL(url), openURL(url+"?waiter_lease=3s"), openURL(url+"?prefix=other/&keep_alive=20s")
	req := driver.Request{Owner: "a", Claims: []driver.Claim{driver.Exclusive("url")}, TTL: 10 * time.Second}
	if _, err := a.Acquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	req.Owner = "b"
	if _, err := b.Acquire(t.Context(), req); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("the other store got %v", err)
	}
	if _, err := other.Acquire(t.Context(), req); err != nil {
		t.Errorf("a store with another prefix got %v", err)
	}
}

func TestBadURL(t *testing.T) {
	for _, url := range []string{
		"etcd:", "etcd://a/path", "etcd://a?prefx=x", "etcd://a?waiter_lease=soon", "etcd://a?prefix=%7B", "etcd://a?waiter_lease=1500ms",
	} {
		_, err := storeurl.Open(t.Context(), url)
		if !errors.Is(err, storeurl.ErrInvalidURL) && !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestSilentServerIsNoLogLine: not parallel, as it takes the standard error of the process.
func TestSilentServerIsNoLogLine(t *testing.T) {
	port, err := servertest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	s, err := storeurl.Open(t.Context(), fmt.Sprint("etcd://127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if said, err := os.ReadFile(file.Name()); err != nil || len(said) > 0 {
		t.Errorf("standard error has %s (%v)", said, err)
	}
}
