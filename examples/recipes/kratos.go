package recipes

import (
	"net/http"

	kgrpc "github.com/go-kratos/kratos/v2/transport/grpc"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"github.com/gorilla/mux"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// kratosGRPC: Kratos takes the interceptors of lockgrpc as they are. They run inside of Kratos' own
// interceptor, so a refusal passes through the middlewares of Kratos, which log and count it.
func kratosGRPC(locks *lockgrpc.Interceptor) *kgrpc.Server {
	return kgrpc.NewServer(kgrpc.UnaryInterceptor(locks.Unary()), kgrpc.StreamInterceptor(locks.Stream()))
}

// kratosFilter is a rule of lockhttp as a filter of a route, with the path values of the route.
func kratosFilter(rule func(http.Handler) http.Handler) khttp.FilterFunc {
	return func(next http.Handler) http.Handler {
		guarded := rule(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, value := range mux.Vars(r) {
				r.SetPathValue(name, value)
			}
			if route := mux.CurrentRoute(r); route != nil {
				r.Pattern, _ = route.GetPathTemplate()
			}
			guarded.ServeHTTP(w, r)
		})
	}
}

// kratosStatus: a filter of the route, because one of the server runs before Kratos knows the path
// values. Kratos answers a handler's error before the filter ends, so Once is right in it, too.
func kratosStatus(s *khttp.Server, locks *lockhttp.Locks, setStatus khttp.HandlerFunc) {
	s.Route("/").PUT("/users/{id}/status", setStatus, kratosFilter(locks.Middleware))
}
