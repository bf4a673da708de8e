package lockhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

const moveRoute = "PUT /groups/{group}/users/{user}"

// TestSeveralRulesAreOneSet: the keys of all rules of a route are taken together, each in its mode. Each
// rule skips, and checks, for itself.
func TestSeveralRulesAreOneSet(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	locks, err := lockhttp.New(eng,
		lockhttp.Serialize(moveRoute, "user:{path.user}", core.WithMaxWait(5*time.Second)).
			SkipIf(func(r *http.Request) bool { return r.PathValue("user") == "bot" }).
			Precheck(func(r *http.Request) error {
				if r.PathValue("user") != "ann" {
					return errors.New("not you")
				}
				return nil
			}),
		lockhttp.Serialize(moveRoute, "group:{path.group}", core.WithShared()),
		lockhttp.SerializeBy(moveRoute, func(r *http.Request) string { return "a/" + r.FormValue("x") }, core.WithHierarchy()).
			SkipIf(func(r *http.Request) bool { return r.FormValue("x") == "" }))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.handle(moveRoute, func(w http.ResponseWriter, r *http.Request) {
		lease, _ := core.LeaseFrom(r.Context())
		for _, c := range lease.Claims() {
			fmt.Fprintf(w, "%v %s,", c.Mode, c.Key)
		}
	}, locks.Middleware)
	for path, want := range map[string]string{
		"/groups/7/users/ann":     "shared group:7,exclusive user:ann,",
		"/groups/7/users/bot":     "shared group:7,",
		"/groups/7/users/ann?x=1": "shared a,exclusive a/1,shared group:7,exclusive user:ann,",
	} {
		if a := s.Do("PUT", path, ""); a.Status != 200 || a.Body != want {
			t.Errorf("%s: %d %q, want %q", path, a.Status, a.Body, want)
		}
	}
	s.Do("PUT", "/groups/7/users/bob", "").Problem(t, 403, "FORBIDDEN")

	want := moveRoute + ": serialize user:{path.user} unless skipped, serialize shared group:{path.group}, serialize hierarchy func unless skipped"
	if all := locks.Coverage(moveRoute); len(all) != 1 || all[0].String() != want {
		t.Errorf("Coverage() = %v, want %s", all, want)
	}
	if err := locks.Check(moveRoute); err != nil {
		t.Error(err)
	}
}

// TestSetsDoNotDeadlock: two routes with the same rules in another order, for the same keys.
func TestSetsDoNotDeadlock(t *testing.T) {
	const back = "DELETE /groups/{group}/users/{user}"
	user, group := "user:{path.user}", "group:{path.group}"
	locks, err := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize(moveRoute, user), lockhttp.Serialize(back, group),
		lockhttp.Serialize(moveRoute, group), lockhttp.Serialize(back, user))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	var one sync.Mutex
	alone := func(w http.ResponseWriter, _ *http.Request) {
		if !one.TryLock() {
			w.WriteHeader(500)
			return
		}
		defer one.Unlock()
	}
	s.handle(moveRoute, alone, locks.Middleware)
	s.handle(back, alone, locks.Middleware)
	var all sync.WaitGroup
	for range 20 {
		for _, method := range []string{"PUT", "DELETE"} {
			all.Go(func() {
				if a := s.Do(method, "/groups/1/users/2", ""); a.Status != 200 {
					t.Errorf("%s: %d %s", method, a.Status, a.Body)
				}
			})
		}
	}
	all.Wait()
}

// TestRulesThatMakeNoSet: what nobody could obey is an error of New.
func TestRulesThatMakeNoSet(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	for says, second := range map[string]lockhttp.Rule{
		"options other than the mode": lockhttp.Serialize(moveRoute, "b", core.WithMaxWait(time.Second)),
		"already one with the key a":  lockhttp.Serialize(moveRoute, "a"),
		"StreamBody for all":          lockhttp.Serialize(moveRoute, "b").StreamBody(),
	} {
		_, err := lockhttp.New(eng, lockhttp.Serialize(moveRoute, "a"), second, lockhttp.Serialize(moveRoute, "c"))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), moveRoute) {
			t.Errorf("New() error = %v, want one with %q", err, says)
		}
	}
	if _, err := lockhttp.New(eng, lockhttp.Once(moveRoute, "a"), lockhttp.Serialize(moveRoute, "b", core.WithMaxWait(time.Second))); err != nil {
		t.Errorf("a rule of Once is around another: %v", err)
	}
}
