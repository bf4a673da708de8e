package replicatest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

// A payment that two processes get is made once, with one receipt for both.
func TestFunc(t *testing.T) { onBackends(t, testFunc) }

func testFunc(t *testing.T, b *backend) {
	var balance, payments atomic.Int64
	type payment struct{ ID int }
	process := func() func(context.Context, payment) (int64, error) {
		locks := lockfunc.New(newEngine(t, b))
		book, err := lockfunc.Serialize(locks, "book", func(payment) string { return "account:1" }, func(context.Context, payment) (int64, error) {
			read := balance.Load()
			time.Sleep(time.Millisecond) // room for the other process, if it got in
			balance.Store(read + 1)
			return payments.Add(1), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		pay, err := lockfunc.Once(locks, "pay", func(p payment) string { return "payment:" + strconv.Itoa(p.ID) }, book)
		if err != nil {
			t.Fatal(err)
		}
		return pay
	}
	processes := []func(context.Context, payment) (int64, error){process(), process()}
	ctx := bounded(t)
	var receipts [40]int64
	var all sync.WaitGroup
	for i := range receipts {
		all.Go(func() {
			var err error
			if receipts[i], err = processes[i%2](ctx, payment{i / 2}); err != nil {
				t.Errorf("payment %d: %v", i/2, err)
			}
		})
	}
	all.Wait()
	for i := 0; i < len(receipts); i += 2 {
		if receipts[i] != receipts[i+1] || receipts[i] == 0 {
			t.Errorf("payment %d has the receipts %d and %d", i/2, receipts[i], receipts[i+1])
		}
	}
	if balance.Load() != 20 || payments.Load() != 20 {
		t.Errorf("%d payments, %d of them on the balance; want 20", payments.Load(), balance.Load())
	}
	b.kill()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := processes[0](ctx, payment{0}); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("without a store: %v", err)
	}
}
