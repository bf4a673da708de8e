package lockhttp_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

type caller struct{}

// TestSerializeKeys: all keys of a request are one set, and may come from its context.
func TestSerializeKeys(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	var held []string
	h := ruletest.Middleware(t, eng, lockhttp.SerializeKeys("*", func(r *http.Request) ([]string, error) {
		return []string{"user:" + r.Context().Value(caller{}).(string), "group:1"}, nil
	}))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := core.LeaseFrom(r.Context())
		for _, claim := range lease.Claims() {
			held = append(held, claim.Key)
		}
	}))
	s := ruletest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caller{}, "ann")))
	}), false)
	if a := s.Do("POST", "/", ""); a.Status != 200 || !slices.Equal(held, []string{"group:1", "user:ann"}) {
		t.Errorf("%+v, held %v", a, held)
	}
}
