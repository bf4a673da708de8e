//go:build unix

package lockecho_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/redistest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestGatewaysOnRedis: two gateways share nothing but a Redis.
func TestGatewaysOnRedis(t *testing.T) {
	redis := redistest.Start(t)
	var status atomic.Int64 // read, changed and written in steps
	var mu sync.Mutex
	processed := map[string]int{}
	gateway := func() *site {
		st, err := redisstore.New(redis.Client(), redisstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		locks := lockecho.New(ruletest.NewEngine(t, st, core.WithMaxWait(10*time.Second)))
		s := newSite(t)
		s.PUT("/users/:id/status", func(c echo.Context) error {
			read := status.Load()
			time.Sleep(time.Millisecond) // room for the other gateway, if it got in
			status.Store(read + 1)
			return ok(c)
		}, locks.Serialize("user:status:{path.id}"))
		s.POST("/messages", func(c echo.Context) error {
			var m struct{ ID string }
			if err := c.Bind(&m); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			processed[m.ID]++
			return c.JSON(201, map[string]int{m.ID: len(processed)})
		}, locks.Once("message:{body.id}"))
		return s
	}
	gateways := []*site{gateway(), gateway()}

	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			if a := gateways[i%2].Do("PUT", "/users/42/status", ""); a.Status != 200 {
				t.Errorf("status: %+v", a)
			}
		})
	}
	clients.Wait()
	if status.Load() != 40 {
		t.Errorf("%d of 40 updates are left", status.Load())
	}

	answers := make([]ruletest.Answer, 20)
	for i := range answers {
		clients.Go(func() {
			answers[i] = gateways[i%2].Do("POST", "/messages", fmt.Sprintf(`{"id":"m%d"}`, i/2), "Content-Type", asJSON)
		})
	}
	clients.Wait()
	for i := 0; i < len(answers); i += 2 {
		a, b := answers[i], answers[i+1]
		if a.Status != 201 || b.Status != 201 || a.Body != b.Body || a.Replayed() == b.Replayed() {
			t.Errorf("message %d: %+v and %+v, want one response twice", i/2, a, b)
		}
		if n := processed[fmt.Sprintf("m%d", i/2)]; n != 1 {
			t.Errorf("message %d was processed %d times", i/2, n)
		}
	}

	// A client in another language has the lock.
	if err := redis.Client().Set(context.Background(), "lock:user:status:7", "another", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if a := gateways[0].Do("PUT", "/users/7/status", ""); a.Status != 200 {
		t.Errorf("after the other client's lock: %+v", a)
	}

	redis.Kill()
	a := gateways[0].Do("PUT", "/users/42/status", "")
	a.Problem(t, 503, "STORE_UNAVAILABLE")
	a.CheckRetryAfter(t, true)
}
