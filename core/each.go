package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/driver"
)

// Item is one execution of [Engine.OnceEach].
type Item struct {
	Key string
	// Fingerprint is as for [WithFingerprint], which holds for the items that have none.
	Fingerprint []byte

	// Outcome and Err are the answer: what [Engine.Once] would have returned for the key. The function
	// sets the Result of a fresh item, or an Err of its own.
	Outcome
	Err error
}

// maxItems bounds what one call asks of the store at a time.
const maxItems = 1000

// OnceEach is [Engine.Once] for up to 1000 keys whose work is done together, such as the messages that
// a consumer gets in one call. It asks the store for all keys at the same time. Redis answers 500 in
// some 20 round trips, five times as fast as in a loop if it is near, and much faster if it is not; a
// file of SQLite, which does one thing at a time, is no faster. Then it calls fn once, with the
// indexes of the items that are not on record, in their order. Without such items, it does not call
// fn.
//
//	items := make([]core.Item, len(messages)) // with a Key each
//	err := eng.OnceEach(ctx, items, func(ctx context.Context, fresh []int) error {
//		return insertAll(ctx, messages, fresh) // or items[i].Err for one of them
//	})
//
// Each item has an answer of its own, in Outcome and Err. Items whose Err is nil are on record. If fn
// returns an error, it becomes the Err of every fresh item that has none. If it panics, nothing is
// recorded.
//
// OnceEach never waits for a key while it holds others, so two batches cannot wait for each other. An
// item whose key is held gets an Err that matches ErrHeld: deliver it again. The second of two items
// with one key is a duplicate of the first. With [WithShadow], all items are fresh.
//
// fn sets Result and Err of the items, and must leave their keys and their order as they are. It holds the
// keys of all fresh items: [AssertHeld] knows them, and [LeaseFrom] finds the lease of the last one. Its
// context ends as soon as one of them is lost. [ErrSkipResult] is as for Once. The returned
// error is about the call: more items than 1000, a wrong option, or [WithExecutor], whose transactions
// have one key each. The options are those of Once; [WithMaxWait] bounds the wait for a silent store.
func (e *Engine) OnceEach(ctx context.Context, items []Item, fn func(ctx context.Context, fresh []int) error, opts ...CallOption) error {
	s, err := e.settingsFor(opts)
	if err != nil {
		return err
	}
	if err := e.backend().canOnce(s); err != nil {
		return err
	}
	switch {
	case fn == nil:
		return errNoFunction
	case s.executor != nil:
		return &OptionError{Option: "WithExecutor", Value: true, Want: "no such option for OnceEach"}
	case len(items) > maxItems:
		return &OptionError{Option: "items", Value: len(items), Want: fmt.Sprintf("up to %d", maxItems)}
	}
	own := *s
	own.failFast = true
	b := &batch{engine: e, ctx: ctx, items: items, settings: &own, over: make(chan struct{})}
	b.run(fn)
	return nil
}

// batch is one call of OnceEach. Each item is a call of Once with a goroutine of its own, so the
// store gathers their requests. Their functions meet, wait for fn, and return its results.
type batch struct {
	engine   *Engine
	ctx      context.Context
	items    []Item
	settings *settings

	asking sync.WaitGroup // items that are neither fresh nor answered yet
	over   chan struct{}  // closed when fn has returned

	mu    sync.Mutex
	under map[int]context.Context // the fresh items: the context of each one's lease
	ended error                   // why fn did not return
}

func (b *batch) run(fn func(context.Context, []int) error) {
	first := make(map[string]int, len(b.items))
	b.under = make(map[int]context.Context, len(b.items))
	b.ended = errNotDone
	var answered sync.WaitGroup
	var repeats []int
	for i := range b.items {
		b.items[i].Outcome, b.items[i].Err = Outcome{}, nil
		if _, twice := first[b.items[i].Key]; twice && b.settings.shadow != shadowed {
			repeats = append(repeats, i)
			continue
		}
		first[b.items[i].Key] = i
		b.asking.Add(1)
		answered.Go(func() { b.once(i) })
	}
	// Also after a panic of fn, no lease stays, and no goroutine.
	defer func() {
		close(b.over)
		answered.Wait()
		for _, i := range repeats {
			answered.Go(func() { b.repeat(&b.items[i], &b.items[first[b.items[i].Key]]) })
		}
		answered.Wait()
	}()
	b.asking.Wait()
	if fresh := b.fresh(); len(fresh) > 0 {
		b.call(fn, fresh)
	}
}

// once is one item's call of Once.
func (b *batch) once(i int) {
	item := &b.items[i]
	s := b.settingsOf(item)
	var met sync.Once
	defer met.Do(b.asking.Done) // an answer without fn
	out, err := b.engine.onceBy(b.ctx, item.Key, func(ctx context.Context) ([]byte, error) {
		b.mu.Lock()
		b.under[i] = ctx
		b.mu.Unlock()
		met.Do(b.asking.Done)
		<-b.over
		if b.ended != nil && item.Err == nil {
			return nil, b.ended
		}
		return item.Result, item.Err
	}, &s)
	item.Outcome, item.Err = out, err
}

// errNotDone is what the functions of the items return if fn has not returned.
var errNotDone = errors.New("keyturn: the function of the batch did not return")

// fresh returns the items that wait for fn, in their order.
func (b *batch) fresh() []int { return slices.Sorted(maps.Keys(b.under)) }

// call calls fn under the leases of all fresh items.
func (b *batch) call(fn func(context.Context, []int) error, fresh []int) {
	base := chainOf(b.ctx)
	top, under := base, b.ctx
	var held []*Lease
	for _, i := range fresh {
		var own []*Lease // innermost first: in a move there are two
		for c := chainOf(b.under[i]); c != base && c != nil && c.lease != nil; c = c.next {
			own = append(own, c.lease)
		}
		for _, l := range slices.Backward(own) {
			top = &chain{Context: b.ctx, lease: l, next: top}
			under, held = top, append(held, l)
		}
	}
	ctx, end := context.WithCancelCause(under)
	defer end(nil)
	for _, l := range held {
		defer l.own.onEnd(end)()
	}
	b.ended = fn(ctx, fresh)
}

// repeat answers an item whose key an earlier one has. If a record has answered that one, only the record tells
// whether it is also about the content of this one.
func (b *batch) repeat(item, first *Item) {
	s := b.settingsOf(item)
	switch {
	case first.Duplicate || errors.Is(first.Err, ErrFingerprintMismatch):
		item.Outcome, item.Err = b.engine.onceBy(b.ctx, item.Key, recordGone, &s)
	case first.Err != nil:
		item.Outcome, item.Err = first.Outcome, first.Err
		item.Result = slices.Clone(first.Result)
	default:
		rec := driver.Record{Fingerprint: b.settingsOf(first).fingerprint, Result: slices.Clone(first.Result), ResultNotKept: first.ResultNotKept}
		item.Outcome, item.Err = replay(b.engine.ShowKey(item.Key), &rec, &s)
	}
}

// recordGone stands for the work of an item that was on record a moment ago.
func recordGone(context.Context) ([]byte, error) {
	return nil, errors.New("keyturn: the record has ended meanwhile")
}

func (b *batch) settingsOf(item *Item) settings {
	s := *b.settings
	if len(item.Fingerprint) > 0 {
		s.fingerprint = item.Fingerprint
	}
	return s
}
