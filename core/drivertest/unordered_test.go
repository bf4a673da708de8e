package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// unordered is a store without a queue, as Redlock is: who waits asks again after a random
// pause, and gets what nobody else has got before.
type unordered struct{ driver.Store }

func (s unordered) Describe() driver.Description {
	d := s.Store.Describe()
	d.Unordered = true
	return d
}

func (s unordered) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := s.ask(ctx, req, func(req driver.Request) (driver.Grant, *driver.Record, error) {
		g, err := s.Store.Acquire(ctx, req)
		return g, nil, err
	})
	return g, err
}

func (s unordered) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.ask(ctx, req, func(req driver.Request) (driver.Grant, *driver.Record, error) { return s.Store.Begin(ctx, req) })
}

func (s unordered) ask(ctx context.Context, req driver.Request, once func(driver.Request) (driver.Grant, *driver.Record, error)) (driver.Grant, *driver.Record, error) {
	wait, onHeld := req.Wait, req.OnHeld
	req.Wait, req.OnHeld = false, nil
	for {
		asked := time.Now()
		g, rec, err := once(req)
		if err == nil && rec == nil {
			g.Since = asked
		}
		var held *driver.HeldError
		if !wait || !errors.As(err, &held) {
			return g, rec, err
		}
		if onHeld != nil {
			onHeld(*held)
		}
		select {
		case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
		case <-ctx.Done():
			return g, rec, err
		}
	}
}

// TestStoreWithoutOrder: the suite expects no order of a store that promises none.
func TestStoreWithoutOrder(t *testing.T) {
	mem := memstore.New()
	Run(t, Harness{
		New:    func(testing.TB) driver.Store { return unordered{mem.Peer()} },
		Around: synctest.Test,
	})
}
