package gateway

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// dial connects to all replicas and spreads the calls over them.
func dial(addrs []string) (*grpc.ClientConn, error) {
	replicas := manual.NewBuilderWithScheme("im")
	var state resolver.State
	for _, addr := range addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	replicas.InitialState(state)
	return grpc.NewClient("im:///services",
		grpc.WithResolvers(replicas),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
}

// httpCodes says which HTTP status clients get for a service's refusal: that of lockecho for
// the same refusal.
var httpCodes = map[codes.Code]int{
	codes.Aborted:            http.StatusConflict,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusUnprocessableEntity,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
}

// answers turns a service's error into an HTTP answer. If the service said when to come back,
// the answer says so, too.
func answers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		var upstream interface{ GRPCStatus() *status.Status }
		if err == nil || !errors.As(err, &upstream) {
			return err
		}
		s := upstream.GRPCStatus()
		code, ok := httpCodes[s.Code()]
		if !ok {
			return err // becomes 500, without the text
		}
		for _, detail := range s.Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				seconds := math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())
				c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(max(1, int(seconds))))
			}
		}
		return echo.NewHTTPError(code, s.Message()).SetInternal(err)
	}
}
