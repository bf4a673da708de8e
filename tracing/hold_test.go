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
	tests := map[string]struct {
		late      time.Duration
		err       error
		event     string // "": none
		errorType string
	}{
		"in time":                   {},
		"a little late":             {late: ttl/10 - 1},
		"late":                      {late: ttl / 10, event: semconv.EventRenewedLate},
		"very late":                 {late: ttl / 2, event: semconv.EventRenewedLate},
		"store out":                 {err: errDown, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store out, and late":       {late: ttl / 2, err: errDown, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store silent":              {err: context.DeadlineExceeded, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"engine ends":               {err: context.Canceled, event: semconv.EventRenewalFailed, errorType: semconv.ErrorUnavailable},
		"store answers oddly":       {err: errors.New("odd"), event: semconv.EventRenewalFailed, errorType: semconv.ErrorOther},
		"a loss is HoldEnd's":       {err: lost},
		"so is one that comes late": {late: ttl / 2, err: lost},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				lease, err := s.eng.Acquire(s.ctx, key, core.WithTTL(ttl))
				s.want(err, nil)
				s.obs.Renewed(seen{lease}, tt.late, tt.err)
				s.want(lease.Release(s.ctx), nil)
				s.obs.Renewed(seen{lease}, tt.late, tt.err) // its answer came after the release
				s.finish()
				events := s.rec.named(semconv.SpanHold)[0].events
				if tt.event == "" {
					if len(events) > 0 {
						t.Errorf("events %v", events)
					}
					return
				}
				if len(events) != 1 || events[0].name != tt.event {
					t.Fatalf("events %v, want one %s", events, tt.event)
				}
				if got := events[0].attrs[semconv.ErrorTypeKey].AsString(); got != tt.errorType {
					t.Errorf("error type %q, want %q", got, tt.errorType)
				}
				if got := events[0].attrs[semconv.LateKey].AsFloat64(); tt.err == nil && got != tt.late.Seconds() {
					t.Errorf("late by %v s, want %v", got, tt.late)
				}
			})
		})
	}
}

// TestHandlersSpansAreUnderTheHold, whichever way the handler gets its context. The hold shows the token, which the
// files in testdata leave out.
func TestHandlersSpansAreUnderTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		lease, err := s.eng.Acquire(s.ctx, key)
		s.want(err, nil)
		s.want(s.work(time.Second)(lease.Context()), nil)
		s.want(lease.Release(s.ctx), nil)
		s.want(s.eng.Do(s.ctx, key, func(ctx context.Context) error {
			lease, _ := core.LeaseFrom(ctx)
			return s.work(time.Second)(lease.Context())
		}), nil)
		s.finish()
		holds, handlers := s.rec.named(semconv.SpanHold), s.rec.named("handler")
		if got := holds[0].attrs[semconv.TokenKey].AsInt64(); got != int64(lease.Token()) {
			t.Errorf("token %d, want %d", got, lease.Token())
		}
		for i := range 2 {
			if handlers[i].parent != holds[i].id {
				t.Errorf("handler %d is under span %v, not under its hold", i, handlers[i].parent)
			}
		}
	})
}
