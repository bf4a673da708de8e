package replicatest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/redistest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func onHTTP(t *testing.T, redis *redistest.Server, a *account) replica {
	locks := ruletest.Locks(t, newEngine(t, redis),
		lockhttp.Idempotency("POST /payments/{account}", lockhttp.AnyCaller, core.WithMaxWait(maxWait)),
		lockhttp.Serialize("POST /payments/{account}", "http:account:{path.account}"))
	mux := http.NewServeMux()
	mux.Handle("POST /payments/{account}", locks.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		receipt := a.pay()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, receipt)
	})))
	site := ruletest.Serve(t, mux, false)
	return func(_ context.Context, id int) (string, error) {
		return receiptOf(site.Do("POST", "/payments/1", "", "Idempotency-Key", fmt.Sprintf(`"k%d"`, id)))
	}
}

func onEcho(t *testing.T, redis *redistest.Server, a *account) replica {
	locks, err := lockecho.New(newEngine(t, redis),
		lockhttp.Once("POST /accounts/:account", "echo:payment:{body.id}"), lockhttp.Serialize("POST /accounts/:account", "echo:account:{path.account}"))
	must(t, err)
	e := echo.New()
	e.Use(locks.Middleware)
	e.POST("/accounts/:account", func(c echo.Context) error { return c.String(http.StatusCreated, a.pay()) })
	site := ruletest.Serve(t, e, false)
	return func(_ context.Context, id int) (string, error) {
		return receiptOf(site.Do("POST", "/accounts/1", fmt.Sprintf(`{"id":"m%d"}`, id), "Content-Type", "application/json"))
	}
}

// refusal is an answer that is no receipt.
type refusal ruletest.Answer

func (r refusal) Error() string { return fmt.Sprintf("%+v", ruletest.Answer(r)) }

func receiptOf(a ruletest.Answer) (string, error) {
	if a.Status != http.StatusCreated {
		return "", refusal(a)
	}
	return a.Body, nil
}

func unavailableHTTP(err error) bool {
	var r refusal
	return errors.As(err, &r) && r.Status == http.StatusServiceUnavailable
}
