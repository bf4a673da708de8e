package echocarry_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/middleware/echo/experimental/echocarry"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A handler gets the key that its caller holds, and no other caller's, if the server opted in. What the client
// does is in httpcarry's tests.
func TestRequestUnderTheCallersLease(t *testing.T) {
	store := memstore.New()
	caller, callee := ruletest.NewEngine(t, store), ruletest.NewEngine(t, store.Peer())
	locks, err := lockecho.New(callee, lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast()))
	if err != nil {
		t.Fatal(err)
	}
	server := func(outer ...echo.MiddlewareFunc) *ruletest.Site {
		e := echo.New()
		e.Use(outer...)
		e.GET("/users/:id", func(c echo.Context) error { return c.NoContent(http.StatusOK) }, locks.Middleware)
		return ruletest.Serve(t, e, false)
	}
	believing, deaf := server(echocarry.Accept), server()
	err = caller.Do(context.Background(), "user:42", func(ctx context.Context) error {
		truth := carry.Leases(ctx)
		lease, _ := core.LeaseFrom(ctx)
		forged := strings.Replace(truth, lease.Owner()[len(lease.Owner())-32:], strings.Repeat("0", 32), 1)
		for _, tt := range []struct {
			name   string
			site   *ruletest.Site
			said   []string
			status int
		}{
			{"carried", believing, []string{truth}, 200},
			{"on two lines", believing, []string{forged, truth}, 200},
			{"nothing", believing, nil, 409},
			{"forged", believing, []string{forged}, 409},
			{"the server does not accept it", deaf, []string{truth}, 409},
		} {
			var header []string
			for _, line := range tt.said {
				header = append(header, carry.Header, line)
			}
			if a := tt.site.Do("GET", "/users/42", "", header...); a.Status != tt.status {
				t.Errorf("%s: %+v", tt.name, a)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
