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
	must(t, err)
	must(t, u.Prepare(t.Context()))
	wantIs(t, "again", u.Prepare(t.Context()), redlock.ErrNotNew)
	s, err := u.Open(t.Context())
	must(t, err)
	most := s.Describe().TTLs.Most
	check(t, most == 20*time.Second, "max_ttl is %v", most)
	g, err := s.Acquire(t.Context(), driver.Request{Owner: "me", Claims: []driver.Claim{driver.Exclusive("k")}, TTL: 10 * time.Second})
	must(t, err)
	wantNil(t, s.Release(t.Context(), g))
	wantNil(t, s.Close())
}

// A node that refuses connections is no silent one: its client does not dial until the time is over.
func TestURLOfNodesThatAreDown(t *testing.T) {
	t.Parallel()
	u, err := storeurl.Parse("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
	must(t, err)
	err = u.Prepare(t.Context())
	check(t, err != nil && strings.Count(err.Error(), "connection refused") == 3, "%v", err)
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
		check(t, errors.Is(err, want) && !strings.Contains(err.Error(), "secret"), "%s: %v", url, err)
	}
}
