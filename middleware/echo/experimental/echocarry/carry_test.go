package echocarry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/middleware/echo/experimental/echocarry"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/http/experimental/httpcarry"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestRequestUnderTheCallersLease(t *testing.T) {
	store := memstore.New()
	caller := ruletest.NewEngine(t, store, core.WithMaxWait(200*time.Millisecond), core.WithHooks(ruletest.SeeLeases))
	callee := ruletest.NewEngine(t, store.Peer(), core.WithMaxWait(200*time.Millisecond), core.WithHooks(ruletest.SeeLeases))
	locks, err := lockecho.New(callee, lockhttp.Serialize("*", "user:{path.id}"))
	if err != nil {
		t.Fatal(err)
	}
	held := func(c echo.Context) error {
		return c.String(http.StatusOK, fmt.Sprint(ruletest.Seen(c.Request().Context()).Depth()))
	}
	believing, deaf := newSite(t), newSite(t)
	believing.Use(echocarry.Accept)
	believing.GET("/users/:id", held, locks.Middleware)
	deaf.GET("/users/:id", held, locks.Middleware)

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func(ctx context.Context, client http.RoundTripper, url, said string) (int, string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if said != "" {
			r.Header.Set(carry.Header, said)
		}
		response, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return response.StatusCode, string(body)
	}
	carries := httpcarry.Transport(transport)
	err = caller.Do(context.Background(), "user:42", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		forged := strings.Replace(carry.Leases(ctx), fmt.Sprint(lease.Token()), "1", 1)
		for _, tt := range []struct {
			name   string
			client http.RoundTripper
			url    string
			said   string
			status int
			body   string
		}{
			{"both", carries, believing.Site.URL + "/users/42", "", 200, "2"},
			{"another key", carries, believing.Site.URL + "/users/43", "", 200, "1"},
			{"only the client", carries, deaf.Site.URL + "/users/42", "", 409, ""},
			{"only the server", transport, believing.Site.URL + "/users/42", "", 409, ""},
			{"forged", transport, believing.Site.URL + "/users/42", forged, 409, ""},
		} {
			if status, body := ask(ctx, tt.client, tt.url, tt.said); status != tt.status || tt.body != "" && body != tt.body {
				t.Errorf("%s: %d %s", tt.name, status, body)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type site struct {
	*echo.Echo
	*ruletest.Site
}

func newSite(t testing.TB) *site {
	t.Helper()
	e := echo.New()
	s := &site{Echo: e, Site: ruletest.Serve(t, e, false)}
	e.Logger.SetOutput(s.Log)
	return s
}
