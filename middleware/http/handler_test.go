package lockhttp_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// TestErrorHandlerOfAllRules: it gets what the service needs for an answer of its own.
func TestErrorHandlerOfAllRules(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	told := make(chan *reasons.Refusal, 1)
	locks := ruletest.Locks(t, eng,
		lockhttp.Serialize("/{id}", "k:{path.id}", core.WithFailFast()),
		lockhttp.Serialize("/json/", "k:{body.id}"),
	).WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, refused *reasons.Refusal) {
		told <- refused
		w.WriteHeader(http.StatusTeapot)
	})
	mux := http.NewServeMux()
	mux.Handle("/{id}", locks.Middleware(http.HandlerFunc(ruletest.Done)))
	mux.Handle("/json/", locks.Middleware(http.HandlerFunc(ruletest.Done)))
	s := ruletest.Serve(t, mux, false)
	lease := ruletest.MustAcquire(t, eng, "k:1")
	if a := s.Do("POST", "/1", ""); a.Status != http.StatusTeapot {
		t.Errorf("%+v", a)
	}
	if got := <-told; got.Reason != reasons.LockHeld || got.Rule != "k:{path.id}" || got.Key != "k:1" || !got.Again || got.Ran || got.RetryAfter < time.Second || !errors.Is(got, core.ErrHeld) {
		t.Errorf("told %+v", got)
	}
	ruletest.MustRelease(t, lease)
	if a := s.Do("POST", "/json/", "<xml/>", "Content-Type", "text/xml"); a.Status != http.StatusTeapot {
		t.Errorf("%+v", a)
	}
	if got := <-told; got.Reason != reasons.MediaType || got.Key != "" || got.Again {
		t.Errorf("told %+v", got)
	}
}
