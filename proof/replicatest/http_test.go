package replicatest

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// A client that sends each payment to both servers has paid once.
func TestHTTP(t *testing.T) { onBackends(t, testHTTP) }

func testHTTP(t *testing.T, b *backend) {
	var balance, payments atomic.Int64
	server := func() *ruletest.Site {
		locks := ruletest.Locks(t, newEngine(t, b),
			lockhttp.Idempotency("POST /payments/{account}", lockhttp.AnyCaller, core.WithMaxWait(b.maxWait())),
			lockhttp.Serialize("POST /payments/{account}", "account:{path.account}"))
		pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			read := balance.Load()
			time.Sleep(time.Millisecond) // room for the other server, if it got in
			balance.Store(read + 1)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, payments.Add(1))
		})
		mux := http.NewServeMux()
		mux.Handle("POST /payments/{account}", locks.Middleware(pay))
		return ruletest.Serve(t, mux, false)
	}
	servers := []*ruletest.Site{server(), server()}
	answers := make([]ruletest.Answer, 40)
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() {
			answers[i] = servers[i%2].Do("POST", "/payments/1", "", "Idempotency-Key", fmt.Sprintf(`"k%d"`, i/2))
		})
	}
	clients.Wait()
	checkPairs(t, answers)
	if balance.Load() != 20 || payments.Load() != 20 {
		t.Errorf("%d payments, %d of them on the balance; want 20", payments.Load(), balance.Load())
	}
	b.kill()
	checkOutage(t, servers[0].Do("POST", "/payments/1", "", "Idempotency-Key", `"k0"`))
}

// checkPairs wants every two answers to be one response, given twice.
func checkPairs(t *testing.T, answers []ruletest.Answer) {
	t.Helper()
	for i := 0; i < len(answers); i += 2 {
		a, b := answers[i], answers[i+1]
		if a.Status != http.StatusCreated || b.Status != http.StatusCreated || a.Body != b.Body || a.Replayed() == b.Replayed() {
			t.Errorf("request %d: %+v and %+v, want one response twice", i/2, a, b)
		}
	}
}

func checkOutage(t *testing.T, a ruletest.Answer) {
	t.Helper()
	a.Problem(t, http.StatusServiceUnavailable, reasons.StoreUnavailable)
	a.CheckRetryAfter(t, true)
}
