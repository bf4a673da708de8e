package redlock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock"
	"github.com/keyturn/keyturn/store/storeurl"
)

// Prepare has new nodes vote at once. goleak sees whether Close closes the clients.
func TestURL(t *testing.T) {
	t.Parallel()
	f := start(t)
	var addrs []string
	for _, s := range f.servers {
		addrs = append(addrs, s.Addr())
	}
	url := "redlock://" + strings.Join(addrs, ",") + "/1?quorum=4&max_ttl=20s&prefix=p:&read_timeout=2s"
	u, err := storeurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.Prepare(t.Context()); !errors.Is(err, redlock.ErrNotNew) {
		t.Errorf("again: %v", err)
	}
	s, err := u.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if most := s.Describe().TTLs.Most; most != 20*time.Second {
		t.Errorf("max_ttl is %v", most)
	}
	g, err := s.Acquire(t.Context(), driver.Request{Owner: "me", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), g); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestURLRefuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"redlock:":                       storeurl.ErrInvalidURL,
		"redlock://a,b":                  driver.ErrInvalidOption,
		"redlock://a,b,a":                driver.ErrInvalidOption,
		"redlock://a,b,c?quorum=1":       driver.ErrInvalidOption,
		"redlock://a,b,c?quorum=x":       storeurl.ErrInvalidURL,
		"redlock://a,b,c?nosuch=1":       storeurl.ErrInvalidURL,
		"redlock://a,b,c/x":              storeurl.ErrInvalidURL,
		"redlocks://:secret@a,b?quorum=": storeurl.ErrInvalidURL,
	} {
		_, err := storeurl.Open(t.Context(), url)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
