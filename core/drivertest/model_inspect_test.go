package drivertest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// What the backend shows of its keys, and how it is broken into.

func (b *backend) inspect(key string) driver.LockInfo {
	e, now := b.at(key), time.Now()
	b.admit(e)
	info := driver.LockInfo{Key: key, Mode: e.phase}
	for _, h := range e.holders {
		info.Holders = append(info.Holders, b.show(h))
	}
	slices.SortFunc(info.Holders, func(x, y driver.Holder) int {
		if b.has("holders are shown as they come") {
			return cmp.Compare(x.Left, y.Left)
		}
		return cmp.Compare(x.Token, y.Token)
	})
	for _, t := range e.queue {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Owner: t.req.Owner, Mode: t.claim.Mode, Permits: t.claim.Permits,
			Rule: t.req.Rule, Trace: t.req.Trace, Waited: now.Sub(t.since),
		})
	}
	if b.has("readers are shown last") {
		slices.SortStableFunc(info.Waiters, func(x, y driver.Waiter) int {
			return cmp.Compare(x.Mode&driver.ModeShared, y.Mode&driver.ModeShared)
		})
	}
	if b.has("waiters are shown by name") {
		slices.SortFunc(info.Waiters, func(x, y driver.Waiter) int { return -strings.Compare(x.Owner, y.Owner) })
	}
	if r, ok := b.record(key); ok {
		info.Record = &driver.RecordInfo{
			Owner: r.owner, Size: len(r.Result), ResultNotKept: r.ResultNotKept && !b.has("what was not kept is empty"),
			Trace: r.Trace, Left: r.expires.Sub(now),
		}
	}
	return info
}

func (b *backend) show(h *holding) driver.Holder {
	s := driver.Holder{
		Owner: h.owner, Token: h.token, Rule: h.rule, Trace: h.trace,
		HeldFor: time.Since(h.since), Left: time.Until(h.expires),
	}
	s.Lingers = h.by != nil && !b.has("what lingers is not shown")
	switch {
	case b.has("notes are trimmed"):
		s.Rule = strings.TrimSpace(s.Rule)
	case b.has("holders show no token"):
		s.Token = 0
	}
	return s
}

func (p *process) Inspect(ctx context.Context, key string) (info driver.LockInfo, err error) {
	err = p.call(ctx, func() { info = p.inspect(key) })
	if p.has("a free key is an error") && len(info.Holders) == 0 && err == nil {
		err = core.ErrNotHeld
	}
	return info, err
}

// List goes by the keys' order; a cursor is the last key of the page before.
func (p *process) List(ctx context.Context, q driver.Listing) (page []driver.LockInfo, next string, err error) {
	err = p.call(ctx, func() {
		var keys []string
		for key := range p.keys {
			if p.matches(key, q.Prefix) && key > q.Cursor {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			if len(page) == q.Limit {
				next = page[q.Limit-1].Key
				if p.has("a page skips one") {
					next = key
				}
				return
			}
			info := p.inspect(key)
			if len(info.Holders) > 0 || q.Shows(info) && !p.has("only what is held is listed") ||
				info.Record != nil && p.has("records are always listed") {
				page = append(page, info)
			}
		}
	})
	if p.has("a listing blocks the backend") {
		p.silent.Store(true)
		time.Sleep(time.Second)
		p.silent.Store(false)
	}
	return page, next, err
}

func (b *backend) matches(key, prefix string) bool {
	if b.has("a prefix is a pattern") {
		if head, _, ok := strings.Cut(prefix, "*"); ok {
			return strings.HasPrefix(key, head)
		}
	}
	return strings.HasPrefix(key, prefix)
}

// expected reports whether a forced release ends h.
func (p *process) expected(h *holding, only []driver.Holder) bool {
	if len(only) == 0 || p.has("a forced release ends whatever there is") {
		return true
	}
	return slices.ContainsFunc(only, func(o driver.Holder) bool {
		if p.has("a forced release needs a token") && o.Token == 0 {
			return false
		}
		return o.Names(h.owner, h.token)
	})
}

func (p *process) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) (had []driver.Holder, err error) {
	var held *driver.HeldError
	var lender *process
	err = p.call(ctx, func() {
		e := p.at(key)
		stay := e.holders[:0:0]
		for _, h := range e.holders {
			if !p.expected(h, only) {
				held = &driver.HeldError{Key: key, Holder: h.owner}
				stay = append(stay, h)
				continue
			}
			had = append(had, p.show(h))
			if h.by != nil && !p.has("a forced release tells nobody") {
				lender = h.by
			}
			if !p.has("one of the forced is told") || len(had) == 1 {
				e.forced[h.owner] = reason
			}
		}
		if p.has("a forced release of nothing finds nobody") && len(had) == 0 {
			had = []driver.Holder{{}}
		}
		if !p.has("a forced release keeps the lease") {
			e.holders = stay
		}
		p.admit(e)
	})
	if lender != nil {
		lender.told(key, had[0].Owner)
	}
	if held != nil && len(had) == 0 && err == nil {
		return nil, held
	}
	return had, err
}

func (p *process) Forget(ctx context.Context, key string) (had bool, err error) {
	err = p.call(ctx, func() {
		_, had = p.record(key)
		had = had || p.version(key) > 0
		if !p.has("nothing is forgotten") {
			delete(p.records, key)
		}
		if !p.has("versions are not forgotten") {
			delete(p.versions, key)
		}
		if p.has("what is forgotten is released") {
			e := p.at(key)
			e.holders = nil
			p.admit(e)
		}
	})
	return had, err
}
