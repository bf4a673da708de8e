package tracing

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core"
)

// AcquireStart begins the acquisition's span.
func (o *Observer) AcquireStart(ctx context.Context, a core.Acquisition) context.Context {
	ctx, span := o.start(ctx, &o.acquiring, SpanAcquire, a.Rule)
	if span != nil {
		span.SetAttributes(o.keys.describe(a.Claims, a.Rule)...)
	}
	return ctx
}

// AcquireEnd ends the acquisition's span.
func (o *Observer) AcquireEnd(ctx context.Context, _ core.Acquisition, lease *core.Lease, err error) {
	if lease != nil {
		o.noteRun(ctx)
	}
	if span := o.acquiring.running(ctx); span != nil {
		span.SetAttributes(WaitKey.Float64(time.Since(span.began).Seconds()))
		acquired(lease, err).end(span)
	}
}
