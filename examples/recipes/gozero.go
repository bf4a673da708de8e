package recipes

import (
	"net/http"

	"github.com/zeromicro/go-zero/rest"
	"github.com/zeromicro/go-zero/rest/pathvar"
	"google.golang.org/grpc"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// zrpcServer is what a *zrpc.RpcServer has for interceptors. zrpc itself imports 450 packages of
// Kubernetes' client, which nobody who runs these tests should have to build.
type zrpcServer interface {
	AddUnaryInterceptors(...grpc.UnaryServerInterceptor)
	AddStreamInterceptors(...grpc.StreamServerInterceptor)
}

// goZeroRPC: zrpc takes the interceptors of lockgrpc as they are, after its own for logs and metrics.
func goZeroRPC(server zrpcServer, locks *lockgrpc.Interceptor) {
	server.AddUnaryInterceptors(locks.Unary())
	server.AddStreamInterceptors(locks.Stream())
}

// goZeroRule is a rule of lockhttp as a middleware of routes, with the path values of the route.
func goZeroRule(pattern string, rule func(http.Handler) http.Handler) rest.Middleware {
	return func(next http.HandlerFunc) http.HandlerFunc {
		guarded := rule(next)
		return func(w http.ResponseWriter, r *http.Request) {
			for name, value := range pathvar.Vars(r) {
				r.SetPathValue(name, value)
			}
			r.Pattern = pattern
			guarded.ServeHTTP(w, r)
		}
	}
}

// goZeroStatus: go-zero answers 503 after its own timeout (3 s), so a caller should wait for less than
// that: then it gets the rule's answer, with Retry-After.
func goZeroStatus(server *rest.Server, locks *lockhttp.Locks, setStatus http.HandlerFunc) {
	rule := goZeroRule("/users/:id/status", locks.Middleware)
	server.AddRoutes(rest.WithMiddleware(rule, rest.Route{Method: http.MethodPut, Path: "/users/:id/status", Handler: setStatus}))
}
