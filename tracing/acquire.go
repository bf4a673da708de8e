package tracing

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// acquireStart begins the acquisition's span.
func (o *observer) acquireStart(ctx context.Context, a observe.Acquisition) context.Context {
	at := place{a.Rule, o.storeName(a.Store)}
	ctx, asking := o.start(ctx, &o.acquiring, semconv.SpanAcquire, at, o.metrics.countsAcquisitions(ctx))
	if asking != nil {
		asking.labels = labels{rule: at.rule, mode: modeOf(a.Claims), store: at.store, shadow: a.Shadow}
		if asking.IsRecording() {
			asking.SetAttributes(o.keys.describe(a.Claims, a.Rule)...)
			markShadow(asking, a.Shadow)
		}
	}
	return ctx
}

// blocked notes where the request is in the queue when it finds the key held. It links the
// request's span to the holder's, in whatever process that is.
func (o *observer) blocked(ctx context.Context, a observe.Acquisition, held core.HeldError, position int) {
	asking := o.acquiring.running(ctx)
	if asking == nil {
		return
	}
	if !asking.blocked {
		asking.blocked = true
		o.metrics.add(ctx, o.metrics.conflicts, asking.labels)
		if a.Wait {
			asking.waiting = true
			o.metrics.change(ctx, o.metrics.waiting, 1, asking.labels)
		}
		if asking.IsRecording() {
			asking.SetAttributes(semconv.PositionKey.Int(position), semconv.QueueKey.String(queue(held)))
		}
	}
	if !asking.IsRecording() {
		return
	}
	if o.owners && held.Holder != "" {
		asking.SetAttributes(semconv.HolderKey.String(shown(held.Holder)))
	}
	if len(asking.linked) < mostLinks {
		o.linkToHolder(asking, held.Trace)
	}
}

// shown is the beginning of a holder's value. A foreign client's value may be anything, of any
// length.
func shown(holder string) string {
	return strings.ToValidUTF8(holder[:min(len(holder), driver.MaxNoteBytes)], "\uFFFD")
}

// queue says in which queue a request waits.
func queue(held core.HeldError) string {
	if held.Local {
		return semconv.QueueLocal
	}
	return semconv.QueueStore
}

func (o *observer) linkToHolder(asking *running, holder string) {
	to, ok := o.link(holder, semconv.LinkBlockedBy)
	if !ok || slices.ContainsFunc(asking.linked, to.SpanContext.Equal) {
		return
	}
	asking.linked = append(asking.linked, to.SpanContext)
	asking.AddLink(to)
}

// acquireEnd ends the acquisition's span.
func (o *observer) acquireEnd(ctx context.Context, a observe.Acquisition, lease observe.Lease, err error) {
	if lease != nil {
		o.noteRun(ctx)
	}
	asking := o.acquiring.running(ctx)
	if asking == nil {
		return
	}
	waited := time.Since(asking.began).Seconds()
	if asking.waiting {
		o.metrics.change(ctx, o.metrics.waiting, -1, asking.labels)
	}
	v := acquired(lease, err)
	o.metrics.record(ctx, o.metrics.wait, waited, v.on(asking.labels))
	if asking.IsRecording() {
		asking.SetAttributes(semconv.WaitKey.Float64(waited), semconv.AttemptsKey.Int(a.Attempts))
	}
	if lease != nil && lease.HandedOff() {
		o.metrics.add(ctx, o.metrics.handoffs, asking.labels)
		if asking.IsRecording() {
			asking.SetAttributes(semconv.HandedOffKey.Bool(true))
			if lease.Lingered() {
				asking.SetAttributes(semconv.LingeredKey.Bool(true))
			}
		}
	}
	v.end(asking)
}

// markShadow says on a span that nothing was locked (core.WithShadow).
func markShadow(span trace.Span, shadow bool) {
	if shadow {
		span.SetAttributes(semconv.ShadowKey.Bool(true))
	}
}

// state is the state of an acquisition or a hold under way. The hooks of an acquisition are
// called on its own goroutine. A hold's state does not change.
type state struct {
	labels  labels
	blocked bool // it found the key held
	waiting bool // it is counted as waiting
	linked  []trace.SpanContext
}
