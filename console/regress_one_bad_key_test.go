package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/driver"
)

// oneBad is a store with a key that somebody has written by hand.
type oneBad struct{ *fake }

func (f *oneBad) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	if key == "bad" {
		return driver.LockInfo{}, &driver.UnavailableError{Op: "inspect", Key: key, Err: errors.New("not written by this store"), Refused: true}
	}
	return f.fake.Inspect(ctx, key)
}

// A question for such a key made the JSON of all others answer 503 for a while, as in an outage.
func TestOneBadKey(t *testing.T) {
	c, err := console.New(&oneBad{newFake(held("a", 41))}, console.WithInterval(time.Second))
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	serve(c, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, want := range []struct {
		path   string
		status int
	}{{"/api/locks", 200}, {"/api/lock?key=bad", 503}, {"/api/lock?key=a", 200}, {"/api/locks", 200}, {"/api/graph", 200}} {
		res := serve(c, httptest.NewRequest(http.MethodGet, want.path, nil))
		check(t, res.StatusCode == want.status, "%s: %s %s", want.path, res.Status, body(t, res))
	}
}
