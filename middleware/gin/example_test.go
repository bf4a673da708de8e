package lockgin_test

import (
	"time"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	lockgin "github.com/keyturn/keyturn/middleware/gin"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// The operations of an IM server on its groups take turns for each group.
func ExampleNew() {
	routes := func(router *gin.Engine, eng *core.Engine, join, invite, kick gin.HandlerFunc) error {
		locks, err := lockgin.New(eng,
			lockhttp.Serialize("*", "group:{body.groupID}", core.WithRule("group-members"), core.WithMaxWait(2*time.Second)))
		if err != nil {
			return err
		}
		router.ContextWithFallback = true
		group := router.Group("/group", locks.Middleware)
		group.POST("/join_group", join)
		group.POST("/invite_user_to_group", invite)
		group.POST("/kick_group", kick)
		return locks.Check(router)
	}
	_ = routes
}
