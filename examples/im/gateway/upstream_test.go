package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func retryIn(t *testing.T, code codes.Code, d time.Duration) error {
	s, err := status.New(code, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// A client of the gateway sees the same answer, whichever service refused.
func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		code  int
		after string
	}{
		{"fine", nil, http.StatusNoContent, ""},
		{"held", retryIn(t, codes.Aborted, 1200*time.Millisecond), http.StatusConflict, "2"},
		{"held, wrapped", fmt.Errorf("join: %w", retryIn(t, codes.Aborted, time.Second)), http.StatusConflict, "1"},
		{"too many", retryIn(t, codes.ResourceExhausted, time.Millisecond), http.StatusTooManyRequests, "1"},
		{"no store", status.Error(codes.Unavailable, "x"), http.StatusServiceUnavailable, ""},
		{"no key", status.Error(codes.InvalidArgument, "x"), http.StatusBadRequest, ""},
		{"other content", status.Error(codes.FailedPrecondition, "x"), http.StatusUnprocessableEntity, ""},
		{"too late", status.Error(codes.DeadlineExceeded, "x"), http.StatusGatewayTimeout, ""},
		{"bug", status.Error(codes.Unknown, "secret"), http.StatusInternalServerError, ""},
		{"the gateway's own", echo.NewHTTPError(http.StatusTeapot), http.StatusTeapot, ""},
		{"the gateway's bug", errors.New("secret"), http.StatusInternalServerError, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := echo.New()
			e.Use(answers)
			e.GET("/", func(c echo.Context) error {
				if test.err != nil {
					return test.err
				}
				return c.NoContent(http.StatusNoContent)
			})
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if rec.Code != test.code || rec.Header().Get("Retry-After") != test.after {
				t.Errorf("%d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
			}
			if strings.Contains(rec.Body.String(), "secret") {
				t.Errorf("answered %s", rec.Body)
			}
		})
	}
}
