package lockecho_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestALossAfterAHijack is told to those who log, and not to the connection,
// which is the handler's.
func TestALossAfterAHijack(t *testing.T) {
	for _, announced := range []bool{true, false} {
		t.Run(fmt.Sprintf("status announced: %v", announced), func(t *testing.T) {
			s := newSite(t)
			seen := make(chan error, 1)
			s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					err := next(c)
					c.Error(err) // as those do who log the status
					seen <- err
					return err
				}
			})
			s.GET("/:id", func(c echo.Context) error {
				if announced {
					c.Response().Header().Set("Connection", "Upgrade")
					c.Response().Header().Set("Upgrade", "raw")
					c.Response().WriteHeader(http.StatusSwitchingProtocols)
				}
				conn, rw, err := c.Response().Hijack()
				if err != nil {
					return err
				}
				defer conn.Close()
				<-c.Request().Context().Done()
				if !announced {
					fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
				}
				fmt.Fprint(rw, "raw")
				return rw.Flush()
			}, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}", core.WithMaxHold(20*time.Millisecond))))
			res, err := s.Client().Do(s.NewRequest("GET", "/1", "", "Connection", "Upgrade", "Upgrade", "raw"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			data, err := io.ReadAll(res.Body)
			if res.StatusCode != 101 || string(data) != "raw" || err != nil {
				t.Errorf("response = %s %q, %v", res.Status, data, err)
			}
			if err := ruletest.Receive(t, "the error", seen); !errors.Is(err, core.ErrLeaseLost) {
				t.Errorf("error = %v, want ErrLeaseLost", err)
			}
			if s.Log.String() != "" {
				t.Errorf("somebody wrote to the handler's connection: %s", s.Log)
			}
		})
	}
}

// TestABodyThatAnEarlierMiddlewareLimits is refused as too large.
func TestABodyThatAnEarlierMiddlewareLimits(t *testing.T) {
	s := newSite(t)
	s.Use(middleware.BodyLimit("10B"))
	s.POST("/:id", ok, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "b:{body|hash}")))

	req := s.NewRequest("POST", "/1", strings.Repeat("x", 20))
	req.ContentLength = -1
	a, err := s.Send(req)
	if err != nil {
		t.Fatal(err)
	}
	a.Problem(t, 413, "BODY_TOO_LARGE")
}
