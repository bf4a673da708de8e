package lockgin

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Around makes a middleware of gin from one of net/http, for those that stand around rules in tests.
func Around(rule func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) { around(c, rule) }
}
