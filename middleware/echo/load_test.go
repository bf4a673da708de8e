package lockecho_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

// TestManyRequests: 10 000 on 100 keys, 100 at a time. None overlaps with
// another of its key, and none is lost.
func TestManyRequests(t *testing.T) {
	const requests, keys, clients = 10_000, 100, 100
	locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
	var inside [keys]atomic.Int32
	var served [keys]int // what the lock protects; the race detector looks too
	s := newSite(t)
	s.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = clients
	s.PUT("/users/:id", func(c echo.Context) error {
		id, err := strconv.Atoi(c.Param("id"))
		if err != nil {
			return err
		}
		if n := inside[id].Add(1); n > 1 {
			t.Errorf("%d requests for %d at a time", n, id)
		}
		runtime.Gosched() // let another in, if it could
		served[id]++
		inside[id].Add(-1)
		return ok(c)
	}, locks.Serialize("user:{path.id}"))

	var next atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < requests; i = next.Add(1) - 1 {
				if a := s.Do("PUT", fmt.Sprintf("/users/%d", i%keys), ""); a.Status != 200 {
					t.Errorf("answer = %+v", a)
				}
			}
		})
	}
	all.Wait()
	for id, n := range served {
		if n != requests/keys {
			t.Errorf("%d requests for %d were served, want %d", n, id, requests/keys)
		}
	}
}
