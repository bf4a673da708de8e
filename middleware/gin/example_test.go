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
		router.ContextWithFallback = true
		guard, err := lockgin.New(router)
		if err != nil {
			return err
		}
		group := guard(lockhttp.New(eng).Serialize("group:{body.groupID}", core.WithRule("group-members"), core.WithMaxWait(2*time.Second)))
		router.POST("/group/join_group", group, join)
		router.POST("/group/invite_user_to_group", group, invite)
		router.POST("/group/kick_group", group, kick)
		return nil
	}
	_ = routes
}
