package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// How the backend tells a process that its lease is wanted.

// noticedAfter is how long a process needs to notice that messages do not reach it.
const noticedAfter = 3 * pollEvery

// lingers returns the process that is told when somebody wants the lease of req.
func (p *process) lingers(req driver.Request, waited bool) *process {
	asked := req.Linger || p.has("leases linger unasked") || p.has("all leases are told of")
	if !asked || p.has("leases of waiters do not linger") && waited {
		return nil
	}
	return p
}

// onWanted is the OnWanted of the description.
func (p *process) onWanted(f func(key, owner string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = f
}

// told sends a message to the process. The caller does not have the backend's mutex.
func (p *process) told(key, owner string) {
	p.mu.Lock()
	f := p.wanted
	p.mu.Unlock()
	if f != nil && (!p.cut.Load() || key == "") {
		time.AfterFunc(latency, func() { f(key, owner) })
	}
}

// lender returns the process that has to know that somebody wants what it has on e; nil: there is
// none.
func (b *backend) lender(e *state, req driver.Request) *process {
	if len(e.holders) == 0 || e.phase != driver.ModeExclusive || e.holders[0].by == nil {
		return nil
	}
	if b.has("refusals tell nobody") && !req.Wait || b.has("waits tell nobody") && req.Wait ||
		b.has("other modes tell nobody") && req.Claims[0].Mode != driver.ModeExclusive {
		return nil
	}
	return e.holders[0].by
}

// tellLender tells the holder's process, if the answer to a request calls for it.
func (p *process) tellLender(r reply, once bool) {
	if r.lender != nil && !(once && p.has("Begin tells nobody")) {
		r.lender.told(r.held.Key, r.held.Holder)
	}
}

// isCut takes the network from the process, which notices a little later.
func (p *process) isCut() {
	p.cut.Store(true)
	if !p.has("missed messages go unnoticed") {
		time.AfterFunc(noticedAfter, func() { p.told("", "") })
	}
}
