package core

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// hiding is a store whose errors have no keys in their texts ([WithKeyFilter]). Only here it is known which keys
// a text may have: later, the circuit and the line tell one caller what another one's request met. The fields of
// the errors stay, because the engine looks at them: it changes them when the caller gets the error.
type hiding struct {
	driver.Store
	engine *Engine
}

// hideKeys returns err without the keys of claims in its text. It changes an error about wrong input, as showError does.
func (e *Engine) hideKeys(err error, claims ...Claim) error {
	return e.hideBy(err, func() *strings.Replacer { return e.replacer(claims) })
}

// hideBy is hideKeys for errors that have the same keys. They ask for their replacer only if they need it.
func (e *Engine) hideBy(err error, names func() *strings.Replacer) error {
	if err == nil || e.keyFilter == nil || errors.Is(err, ErrHeld) || errors.Is(err, ErrLeaseLost) {
		return err // the caller never gets the last two: the engine makes its own
	}
	err = e.showError(err)
	if out, ok := err.(*UnavailableError); ok && out.Err != nil {
		hidden := *out
		hidden.Err = hideText(out.Err, names())
		return &hidden
	}
	return hideText(err, names())
}

// hideText returns err itself if its text has none of the names.
func hideText(err error, names *strings.Replacer) error {
	said := err.Error()
	if text := names.Replace(said); text != said {
		return &hiddenError{text, err}
	}
	return err
}

// replacer hides keys in a text. Stores quote keys, or write them as they are. A key of a letter or two also hides
// parts of words: a text that is hard to read does less harm than a name in a log.
func (e *Engine) replacer(claims []Claim) *strings.Replacer {
	keys := slices.Sorted(slices.Values(driver.Keys(claims)))
	var pairs []string
	for _, key := range slices.Backward(keys) { // a key before those that it begins with
		if key == "" { // the prefix of a whole list
			continue
		}
		shown := e.keyFilter(key)
		pairs = append(pairs, key, shown, unquoted(key), unquoted(shown))
	}
	return strings.NewReplacer(pairs...)
}

// unquoted is what stands between the quotes of a key in an error.
func unquoted(key string) string {
	quoted := strconv.Quote(key)
	return quoted[1 : len(quoted)-1]
}

// hiddenError is an error with another text.
type hiddenError struct {
	text string
	err  error
}

func (h *hiddenError) Error() string { return h.text }

func (h *hiddenError) Unwrap() error { return h.err }

// showOutage returns an outage as a caller may see it. The circuit needs the key itself.
func (e *Engine) showOutage(err error) error {
	out, ok := err.(*UnavailableError)
	if e.keyFilter == nil || !ok || out.Key == "" {
		return err
	}
	shown := *out // several callers may share the error
	shown.Key = e.keyFilter(out.Key)
	return &shown
}

func (h hiding) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, err := h.Store.Acquire(ctx, req)
	return g, h.engine.hideKeys(err, req.Claims...)
}

func (h hiding) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	g, rec, err := h.Store.Begin(ctx, req)
	return g, rec, h.engine.hideKeys(err, req.Claims...)
}

// Renew hides all keys in each error: a store may say that a row of some of them is locked.
func (h hiding) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := h.Store.Renew(ctx, grants)
	names := sync.OnceValue(func() *strings.Replacer {
		var all []Claim
		for _, g := range grants {
			all = append(all, g.Claims...)
		}
		return h.engine.replacer(all)
	})
	for i, err := range errs {
		errs[i] = h.engine.hideBy(err, names)
	}
	return errs
}

func (h hiding) Downgrade(ctx context.Context, g driver.Grant) error {
	return h.engine.hideKeys(h.Store.Downgrade(ctx, g), g.Claims...)
}

func (h hiding) Release(ctx context.Context, g driver.Grant) error {
	return h.engine.hideKeys(h.Store.Release(ctx, g), g.Claims...)
}

func (h hiding) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	return h.engine.hideKeys(h.Store.Complete(ctx, g, rec, retention), g.Claims...)
}

func (h hiding) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	newest, err := h.Store.AdvanceVersion(ctx, key, version, retention)
	return newest, h.engine.hideKeys(err, Exclusive(key))
}

func (h hiding) Inspect(ctx context.Context, key string) (driver.LockInfo, error) {
	info, err := h.Store.Inspect(ctx, key)
	return info, h.engine.hideKeys(err, Exclusive(key))
}

// errUnread replaces what a store says about a key that a list has come to: nobody knows which one that is.
const errUnread = "keyturn: a key of the list can't be read"

func (h hiding) List(ctx context.Context, q driver.Listing) ([]driver.LockInfo, string, error) {
	page, next, err := h.Store.List(ctx, q)
	if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed) {
		return nil, "", &hiddenError{errUnread, err}
	}
	return page, next, h.engine.hideKeys(err, Exclusive(q.Prefix))
}

func (h hiding) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	gone, err := h.Store.ForceRelease(ctx, key, reason, only...)
	return gone, h.engine.hideKeys(err, Exclusive(key))
}

func (h hiding) Forget(ctx context.Context, key string) (bool, error) {
	was, err := h.Store.Forget(ctx, key)
	return was, h.engine.hideKeys(err, Exclusive(key))
}
