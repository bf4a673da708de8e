package lockecho_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/middleware/http"
)

func TestTheOuterContextDoesNotEndWithTheLease(t *testing.T) {
	s := newSite(t)
	outer := make(chan error, 1)
	s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			outer <- c.Request().Context().Err()
			return err
		}
	})
	s.GET("/:id", func(c echo.Context) error {
		res := c.Response()
		check(t, res.Status == http.StatusOK && !res.Committed && res.Size == 0, "response = %+v, want one that nobody has written to", res)
		return ok(c)
	}, ruleOf(t, ruletest.NewEngine(t, ruletest.NewStore()), "Serialize"))
	s.Do("GET", "/42", "")
	wantIs(t, "the outer middleware's context ended with the lease", ruletest.Receive(t, "the outer middleware", outer), nil)
}

// ruleOf is a rule of this kind, whose key is user:{path.id}.
func ruleOf(t testing.TB, eng *core.Engine, kind string) echo.MiddlewareFunc {
	t.Helper()
	if kind == "Once" {
		return rule(t, eng, lockhttp.Once("*", "user:{path.id}"))
	}
	return rule(t, eng, lockhttp.Serialize("*", "user:{path.id}"))
}

// TestTheHandlersOwnErrorPasses: unchanged, also one that looks like a refusal.
func TestTheHandlersOwnErrorPasses(t *testing.T) {
	teapot := echo.NewHTTPError(http.StatusTeapot, "short and stout")
	for _, tt := range []struct {
		name   string
		err    error
		status int
	}{
		{"an HTTPError", teapot, http.StatusTeapot},
		{"any error", errors.New("broken"), 500},
		{"a refusal of another lock", &core.HeldError{Key: "another lock"}, 500},
	} {
		for _, kind := range []string{"Serialize", "Once"} {
			s := newSite(t)
			seen := s.seeErrors()
			s.GET("/:id", func(c echo.Context) error {
				c.Response().Header().Set("X-Handler", "was here")
				return tt.err
			}, ruleOf(t, ruletest.NewEngine(t, ruletest.NewStore()), kind))
			a := s.Do("GET", "/42", "")
			if err := ruletest.Receive(t, "the error", seen); err != tt.err {
				t.Errorf("%s, %s: error = %v, want the handler's own", kind, tt.name, err)
			}
			check(t, a.Status == tt.status && strings.Contains(a.Body, "message") && a.Header.Get("X-Handler") != "", "%s, %s: answer = %+v, want Echo's %d", kind, tt.name, a, tt.status)
		}
	}
}

// TestAPanicReleases and goes on panicking; Recover answers it, although the handler had answered before.
func TestAPanicReleases(t *testing.T) {
	for _, kind := range []string{"Serialize", "Once"} {
		t.Run(kind, func(t *testing.T) {
			eng := ruletest.NewEngine(t, ruletest.NewStore())
			guard := ruleOf(t, eng, kind)
			s := newSite(t)
			s.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true}))
			var calls atomic.Int64
			s.GET("/:id", func(c echo.Context) error {
				c.Response().Header().Set("Etag", `"1"`)
				_ = c.String(200, "done")
				if calls.Add(1) == 1 {
					panic("at the disco")
				}
				return nil
			}, guard)
			a := s.Do("GET", "/42", "")
			check(t, a.Status == 500 && !strings.Contains(a.Body, "done") && a.Header.Get("Etag") == "", "answer = %+v, want a 500 that keeps nothing of the handler's", a)
			if ruletest.IsHeld(t, eng, "user:42") {
				t.Error("the lock is still held")
			}
			if a := s.Do("GET", "/42", ""); a.Status != 200 || a.Header.Get(lockhttp.ReplayedHeader) != "" {
				t.Errorf("second answer = %+v, want the handler's", a)
			}
		})
	}
}

// TestALossBehindEchosMiddleware: Recover does not swallow what breaks the response off, and Gzip does not end it.
func TestALossBehindEchosMiddleware(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing") // or the response would be kept back
	noise := make([]byte, 300<<10)             // which Gzip can't keep back
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			s := newSite(t)
			if version == 2 {
				s.useHTTP2()
			}
			s.Use(middleware.Recover(), middleware.Gzip())
			s.GET("/:id", func(c echo.Context) error {
				for part := range slices.Chunk(noise, 10<<10) {
					if _, err := c.Response().Write(part); err != nil {
						return err
					}
				}
				return untilLost(c)
			}, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}", core.WithMaxHold(50*time.Millisecond))))
			res, err := s.Client().Do(s.NewRequest("GET", "/42", ""))
			if err != nil {
				t.Fatalf("no response: %v", err)
			}
			defer res.Body.Close()
			if res.ProtoMajor != version || res.StatusCode != 200 {
				t.Fatalf("response = %s %s", res.Proto, res.Status)
			}
			wantIs(t, "the beginning", checktest.ErrorOf(io.ReadFull(res.Body, make([]byte, 5))), nil)
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Error("the response came to a clean end, want it broken")
			}
		})
	}
}

// TestABrokenResponseStaysBroken, also when somebody recovers from every panic.
func TestABrokenResponseStaysBroken(t *testing.T) {
	s := newSite(t)
	logged := make(chan error, 1)
	s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				check(t, recover() == nil, "a panic where the connection could be closed")
				logged <- err
			}()
			return next(c)
		}
	})
	s.GET("/:id", func(c echo.Context) error {
		c.Response().Flush()
		return untilLost(c)
	}, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}", core.WithMaxHold(20*time.Millisecond))))
	if a := s.Do("GET", "/42", ""); a.Broken == nil {
		t.Errorf("answer = %+v, want it broken", a)
	}
	if err := ruletest.Receive(t, "the error", logged); !errors.Is(err, core.ErrLeaseLost) {
		t.Errorf("error = %v, want ErrLeaseLost for those who log", err)
	}
}
