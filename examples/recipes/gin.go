package recipes

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// ginRule is a rule of lockhttp as a middleware of gin, with the path values of the route.
func ginRule(rule func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer, entered := c.Writer, false
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		c.Request.Pattern = c.FullPath()
		rule(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered = true
			c.Request, c.Writer = r, &ginWriter{ResponseWriter: outer, to: w}
			defer func() { c.Writer = outer }()
			c.Next()
		})).ServeHTTP(outer, c.Request)
		if !entered { // the rule has answered
			c.Abort()
		}
	}
}

// ginWriter is gin's, for a response that the rule keeps back.
type ginWriter struct {
	gin.ResponseWriter
	to     http.ResponseWriter
	status int
	size   int
}

func (w *ginWriter) WriteHeader(code int) { w.status = code }
func (w *ginWriter) WriteHeaderNow()      { w.to.WriteHeader(w.Status()) }
func (w *ginWriter) Status() int          { return max(w.status, http.StatusOK) }
func (w *ginWriter) Size() int            { return w.size }
func (w *ginWriter) Written() bool        { return w.size > 0 }
func (w *ginWriter) Flush()               { w.to.(http.Flusher).Flush() }

func (w *ginWriter) Unwrap() http.ResponseWriter { return w.to }

func (w *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.to.(http.Hijacker).Hijack()
}

func (w *ginWriter) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.to.Write(p)
	w.size += n
	return n, err
}

func (w *ginWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// groupRoutes are the operations of an IM server on its groups, as JSON over gin: who joins, is
// invited or removed changes the same list of members, so they take turns for each group.
func groupRoutes(g gin.IRouter, locks *lockhttp.Locks, join, invite, kick gin.HandlerFunc) {
	group := ginRule(locks.Serialize("group:{body.groupID}", core.WithRule("group-members")))
	g.POST("/group/join_group", group, join)
	g.POST("/group/invite_user_to_group", group, invite)
	g.POST("/group/kick_group", group, kick)
}
