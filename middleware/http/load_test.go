package lockhttp_test

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestManyRequests: 10 000 on 100 keys, 100 at a time. None overlaps with
// another of its key, and none is lost.
func TestManyRequests(t *testing.T) {
	const requests, keys, clients = 10_000, 100, 100
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	var inside, total [keys]atomic.Int64
	s := newSite(t)
	s.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = clients
	s.handle("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		var id int
		fmt.Sscan(r.PathValue("id"), &id)
		if inside[id].Add(1) != 1 {
			t.Errorf("two requests for %d at a time", id)
		}
		runtime.Gosched() // let another in, if it could
		total[id].Add(1)
		inside[id].Add(-1)
	}, locks.Serialize("user:{path.id}"))

	var next atomic.Int64
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < requests; i = next.Add(1) - 1 {
				if a := s.Do("PUT", fmt.Sprintf("/users/%d", i%keys), ""); a.Status != 200 {
					t.Errorf("answer = %+v", a)
				}
			}
		})
	}
	wait.Wait()
	for id := range total {
		if n := total[id].Load(); n != requests/keys {
			t.Errorf("%d requests for %d, want %d", n, id, requests/keys)
		}
	}
}
