package recipes

import (
	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	lockgin "github.com/keyturn/keyturn/middleware/gin"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// groupRoutes are the operations of an IM server on its groups, as JSON over gin: who joins, is
// invited or removed changes the same list of members, so they take turns for each group.
func groupRoutes(g *gin.Engine, locks *lockhttp.Locks, join, invite, kick gin.HandlerFunc) error {
	g.ContextWithFallback = true // a handler may pass its *gin.Context on
	guard, err := lockgin.New(g)
	if err != nil {
		return err
	}
	group := guard(locks.Serialize("group:{body.groupID}", core.WithRule("group-members")))
	g.POST("/group/join_group", group, join)
	g.POST("/group/invite_user_to_group", group, invite)
	g.POST("/group/kick_group", group, kick)
	return nil
}
