package replicatest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// account is what the replicas of a service write to, in steps that only a lock makes one.
type account struct{ balance, payments atomic.Int64 }

// pay returns a receipt.
func (a *account) pay() string {
	read := a.balance.Load()
	time.Sleep(time.Millisecond) // room for the other replica, if it got in
	a.balance.Store(read + 1)
	return fmt.Sprint(a.payments.Add(1))
}

// replica makes the payment with that id, and returns its receipt; "": the middleware has no answers.
type replica func(ctx context.Context, id int) (receipt string, err error)

// middlewares open a replica behind each of them. refused tells an outage of the locks from other errors.
var middlewares = map[string]struct {
	open    func(t *testing.T, redis *redistest.Server, a *account) replica
	refused func(error) bool
}{
	"asynq": {onAsynq, unavailable}, "connect": {onConnect, unavailableConnect}, "echo": {onEcho, unavailableHTTP},
	"func": {onFunc, unavailable}, "grpc": {onGRPC, unavailableGRPC}, "http": {onHTTP, unavailableHTTP}, "river": {onRiver, snoozed},
}

// TestEachPaymentIsMadeOnce: clients send each payment to both replicas of a service. It is made once, with one
// receipt for both, and one after the other for the account. Without a server for the locks none is made.
func TestEachPaymentIsMadeOnce(t *testing.T) {
	redis := redistest.Start(t)
	services := make(map[string]replica)
	for name, m := range middlewares {
		if testing.Short() && name != "grpc" && name != "asynq" {
			continue // their own packages tell what they do
		}
		ctx, a := bounded(t), new(account)
		replicas := []replica{m.open(t, redis, a), m.open(t, redis, a)}
		services[name] = replicas[0]
		var receipts [40]string
		var all sync.WaitGroup
		for i := range receipts {
			all.Go(func() {
				var err error
				if receipts[i], err = replicas[i%2](ctx, i/2); err != nil {
					t.Errorf("%s, payment %d: %v", name, i/2, err)
				}
			})
		}
		all.Wait()
		for i := 0; i < len(receipts); i += 2 {
			check(t, receipts[i] == receipts[i+1], "%s: payment %d has the receipts %q and %q", name, i/2, receipts[i], receipts[i+1])
		}
		made, balance := a.payments.Load(), a.balance.Load()
		check(t, made == 20 && balance == 20, "%s: %d payments, %d of them on the balance; want 20", name, made, balance)
	}
	cron, gocron := testCron(t, redis), testGocron(t, redis)
	redis.Kill()
	var outages sync.WaitGroup
	outages.Go(cron)
	outages.Go(gocron)
	for name, pay := range services {
		outages.Go(func() {
			ctx, cancel := context.WithTimeout(bounded(t), maxWait+10*time.Second)
			defer cancel()
			if _, err := pay(ctx, 100); !middlewares[name].refused(err) {
				t.Errorf("%s without a server: %v", name, err)
			}
		})
	}
	outages.Wait()
}
