package snippets

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/http"
)

// snippet

func newHandler(eng *core.Engine, setStatus http.Handler) *http.ServeMux {
	locks, mux := lockhttp.New(eng), http.NewServeMux()
	mux.Handle("PUT /users/{id}/status", locks.Serialize("user:status:{path.id}")(setStatus))
	return mux
}

// end snippet
