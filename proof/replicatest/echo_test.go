package replicatest

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestEcho(t *testing.T) { onBackends(t, testEcho) }

func testEcho(t *testing.T, b *backend) {
	var status atomic.Int64 // read, changed and written in steps
	var mu sync.Mutex
	processed := map[string]int{}
	gateway := func() *ruletest.Site {
		locks, err := lockecho.New(newEngine(t, b),
			lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"), lockhttp.Once("POST /messages", "message:{body.id}"))
		if err != nil {
			t.Fatal(err)
		}
		e := echo.New()
		e.Use(locks.Middleware)
		e.PUT("/users/:id/status", func(c echo.Context) error {
			read := status.Load()
			time.Sleep(time.Millisecond) // room for the other gateway, if it got in
			status.Store(read + 1)
			return c.NoContent(http.StatusOK)
		})
		e.POST("/messages", func(c echo.Context) error {
			var m struct{ ID string }
			if err := c.Bind(&m); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			processed[m.ID]++
			return c.JSON(http.StatusCreated, map[string]int{m.ID: len(processed)})
		})
		return ruletest.Serve(t, e, false)
	}
	gateways := []*ruletest.Site{gateway(), gateway()}

	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			if a := gateways[i%2].Do("PUT", "/users/42/status", ""); a.Status != http.StatusOK {
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
			answers[i] = gateways[i%2].Do("POST", "/messages", fmt.Sprintf(`{"id":"m%d"}`, i/2), "Content-Type", "application/json")
		})
	}
	clients.Wait()
	checkPairs(t, answers)
	for id, n := range processed {
		if n != 1 {
			t.Errorf("message %s was processed %d times", id, n)
		}
	}

	if b.redis != nil { // a client in another language has the lock
		if err := b.redis.Client().Set(bounded(t), "lock:user:status:7", "another", time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if a := gateways[0].Do("PUT", "/users/7/status", ""); a.Status != http.StatusOK {
		t.Errorf("after the other client's lock: %+v", a)
	}

	b.kill()
	checkOutage(t, gateways[0].Do("PUT", "/users/42/status", ""))
}
