package tracing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/tracing/semconv"
)

func TestRenewals(t *testing.T) {
	const ttl = 10 * time.Second
	lost := &core.LeaseLostError{Key: key, Reason: driver.LossTaken}
	for name, tt := range map[string]struct {
		late      time.Duration
		err       error
		event     string // "": none
		errorType string
	}{
		"a little late":                       {late: ttl/10 - 1},
		"late":                                {late: ttl / 10, event: semconv.EventRenewedLate},
		"store out, and late":                 {late: ttl / 2, err: errDown, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store silent":                        {err: context.DeadlineExceeded, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"engine ends":                         {err: context.Canceled, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store answers oddly":                 {err: errors.New("odd"), event: semconv.EventRenewalFailed, errorType: semconv.ErrorOther},
		"a loss that comes late is HoldEnd's": {late: ttl / 2, err: lost},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			lease, err := s.eng.Acquire(s.ctx, key, core.WithTTL(ttl))
			s.want(err, nil)
			s.obs.Renewed(seen{lease}, tt.late, tt.err)
			s.want(lease.Release(s.ctx), nil)
			s.obs.Renewed(seen{lease}, tt.late, tt.err) // its answer came after the release
			s.finish()
			hold := s.rec.named(semconv.SpanHold)[0]
			if got := hold.attrs[semconv.TokenKey].AsInt64(); got != int64(lease.Token()) { // testdata leaves it out
				t.Errorf("token %d, want %d", got, lease.Token())
			}
			if (len(hold.events) == 1) != (tt.event != "") {
				t.Fatalf("%s: events %v, want %q", name, hold.events, tt.event)
			}
			for _, e := range hold.events {
				if got := e.attrs[semconv.ErrorTypeKey].AsString(); e.name != tt.event || got != tt.errorType {
					t.Errorf("%s: event %s of error type %q, want %s, %q", name, e.name, got, tt.event, tt.errorType)
				}
				if got := e.attrs[semconv.LateKey].AsFloat64(); tt.err == nil && got != tt.late.Seconds() {
					t.Errorf("%s: late by %v s, want %v", name, got, tt.late)
				}
			}
		})
	}
}
