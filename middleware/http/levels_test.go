package lockhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/leveltest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestLevels(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s := newSite(t)
	var claims []core.Claim
	s.handle("PUT /groups/{group}/members/{member}", func(w http.ResponseWriter, r *http.Request) {
		lease, _ := core.LeaseFrom(r.Context())
		claims = lease.Claims()
		ok(w, r)
	}, lockhttp.New(eng).Serialize(fmt.Sprintf(leveltest.Template, "path.group", "path.member"), core.WithHierarchy(), core.WithFailFast()))
	leveltest.Run(t, eng, func(group, member string) []core.Claim {
		claims = nil
		a := s.Do("PUT", "/groups/"+url.PathEscape(group)+"/members/"+url.PathEscape(member), "")
		if want := map[bool]int{true: 409, false: 200}[claims == nil]; a.Status != want {
			t.Errorf("claims %v, answer %+v", claims, a)
		}
		return claims
	})
}
