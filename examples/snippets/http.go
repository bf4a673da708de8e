package snippets

import (
	"net/http"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/http"
)

// snippet

func newHandler(eng *core.Engine, setStatus http.HandlerFunc) (http.Handler, error) {
	locks, err := lockhttp.New(eng, lockhttp.Serialize("PUT /users/{id}/status", "user:status:{path.id}"))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	routes := locks.Routes(mux)
	routes.HandleFunc("PUT /users/{id}/status", setStatus)
	return mux, routes.Check() // a misspelt route, or a {path.x} that it lacks, stops the start
}

// end snippet
