package lockhttp_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/locktest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// A release that the store does not answer is nothing to the client: the work was done
// while the key was held. The operator is told, with key and rule, and the next request
// for the key need not wait for the TTL.
func TestUnansweredRelease(t *testing.T) {
	store, log := locktest.NewStore(memstore.New()), &ruletest.Buffer{}
	eng := ruletest.NewEngine(t, store, core.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	s := newSite(t)
	s.handle("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		store.Refuse()
		ok(w, r)
	}, ruletest.Middleware(t, eng, lockhttp.Serialize("*", "user:{path.id}")))
	for range 2 {
		if a := s.Do("PUT", "/users/42", ""); a.Status != 200 || a.Body != "done" {
			t.Errorf("answer = %+v", a)
		}
		ruletest.Until(t, "a line in the log", func() bool { return strings.Contains(log.String(), "release unanswered") })
		store.Heal()
	}
	if !strings.Contains(log.String(), `key=user:42 rule=user:{path.id} `) {
		t.Errorf("the log has no key and rule:\n%s", log)
	}
}
