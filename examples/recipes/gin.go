package recipes

import (
	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	lockgin "github.com/keyturn/keyturn/middleware/gin"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// groupRoutes are the operations of an IM server on its groups, as JSON over gin: who joins, is
// invited or removed changes the same list of members, so they take turns for each group.
func groupRoutes(g *gin.Engine, eng *core.Engine, join, invite, kick gin.HandlerFunc) error {
	locks, err := lockgin.New(eng, lockhttp.Serialize("*", "group:{body.groupID}", core.WithRule("group-members")))
	if err != nil {
		return err
	}
	g.ContextWithFallback = true // a handler may pass its *gin.Context on
	group := g.Group("/group", locks.Middleware)
	group.POST("/join_group", join)
	group.POST("/invite_user_to_group", invite)
	group.POST("/kick_group", kick)
	return locks.Check(g)
}
