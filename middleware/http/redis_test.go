//go:build unix

package lockhttp_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/redistest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestServersOnRedis: two servers share nothing but a Redis. A client that
// sends each payment to both has paid once.
func TestServersOnRedis(t *testing.T) {
	redis := redistest.Start(t)
	var balance, payments atomic.Int64
	server := func() *site {
		st, err := redisstore.New(redis.Client(), redisstore.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		locks := lockhttp.New(ruletest.NewEngine(t, st, core.WithMaxWait(10*time.Second)))
		s := newSite(t)
		s.handle("POST /payments/{account}", func(w http.ResponseWriter, _ *http.Request) {
			read := balance.Load()
			time.Sleep(time.Millisecond) // room for the other server, if it got in
			balance.Store(read + 1)
			text(w, 201, fmt.Sprint(payments.Add(1)))
		}, locks.Idempotency(lockhttp.AnyCaller, core.WithMaxWait(10*time.Second)), locks.Serialize("account:{path.account}"))
		return s
	}
	servers := []*site{server(), server()}
	answers := make([]ruletest.Answer, 40)
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() {
			answers[i] = servers[i%2].Do("POST", "/payments/1", "", "Idempotency-Key", fmt.Sprintf(`"k%d"`, i/2))
		})
	}
	clients.Wait()
	for i := 0; i < len(answers); i += 2 {
		a, b := answers[i], answers[i+1]
		if a.Status != 201 || b.Status != 201 || a.Body != b.Body || a.Replayed() == b.Replayed() {
			t.Errorf("payment %d: %+v and %+v, want one response twice", i/2, a, b)
		}
	}
	if balance.Load() != 20 || payments.Load() != 20 {
		t.Errorf("%d payments, %d of them on the balance; want 20", payments.Load(), balance.Load())
	}
	redis.Kill()
	a := servers[0].Do("POST", "/payments/1", "", "Idempotency-Key", `"k0"`)
	a.Problem(t, 503, "STORE_UNAVAILABLE")
	a.CheckRetryAfter(t, true)
}
