package lockecho_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/leveltest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

func TestLevels(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s := newSite(t)
	var claims []core.Claim
	s.PUT("/groups/:group/members/:member", func(c echo.Context) error {
		lease, _ := core.LeaseFrom(c.Request().Context())
		claims = lease.Claims()
		return c.NoContent(200)
	}, lockecho.New(eng).Serialize(fmt.Sprintf(leveltest.Template, "path.group", "path.member"), core.WithHierarchy(), core.WithFailFast()))
	leveltest.Run(t, eng, func(group, member string) []core.Claim {
		claims = nil
		a := s.Do("PUT", "/groups/"+url.PathEscape(group)+"/members/"+url.PathEscape(member), "")
		if want := map[bool]int{true: 409, false: 200}[claims == nil]; a.Status != want {
			t.Errorf("claims %v, answer %+v", claims, a)
		}
		return claims
	})
}
