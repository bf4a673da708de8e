package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// echoRequests compares requests to a route that has a rule with requests to the same route
// without a rule. They call Echo's ServeHTTP directly: net/http and the network take the same
// time in both cases, and would only blur the difference.
func echoRequests(ctx context.Context, env *Env, store string) (_ []stats.Sample, err error) {
	eng, shut, err := env.engine(ctx, store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	locks, err := lockecho.New(eng, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"))
	if err != nil {
		return nil, err
	}
	return added(ctx, env.Size, echoCaller(ctx), echoCaller(ctx, locks.Middleware))
}

// echoCaller returns a request, each time for the next user.
func echoCaller(ctx context.Context, rules ...echo.MiddlewareFunc) func() error {
	e := echo.New()
	e.PUT("/users/:id/status", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }, rules...)
	n := 0
	return func() error {
		n++
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("/users/%d/status", n%users), http.NoBody)
		if err != nil {
			return err
		}
		response := &discarded{header: make(http.Header)}
		e.ServeHTTP(response, req)
		if response.code != http.StatusNoContent {
			return fmt.Errorf("the answer is %d", response.code)
		}
		return nil
	}
}

// discarded is a response that nobody reads.
type discarded struct {
	header http.Header
	code   int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(code int)        { d.code = code }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
