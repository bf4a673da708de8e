package memstore

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// set is a request for several claims. Each step of it is atomic, so a set that finds all of
// its keys free takes them in one step. A set that has to wait holds the claims before the one
// it waits for, and nothing behind it. All sets go in key order, so no two of them deadlock.
type set struct {
	mem *memory
	req inquiry
	w   *waiter // its place in the line that it waits in
	way want    // the message to the lease that was in the way in the last step
}

// acquireSet takes all claims of req, or none.
func (s *Store) acquireSet(ctx context.Context, req driver.Request) (driver.Grant, error) {
	whole := inquiry{Request: req}
	p := &set{mem: s.mem, req: whole, w: &waiter{req: whole, done: make(chan answer, 1)}}
	grant, held, err := p.step(req.Wait)
	p.way.tell()
	if held == nil || !req.Wait {
		return grant, err
	}
	// The claims that the set holds must not run out while it waits for the rest.
	extend := time.NewTicker(max(req.TTL/3, time.Millisecond))
	defer extend.Stop()
	for told := ""; ; {
		if held.Key != told && req.OnHeld != nil {
			req.OnHeld(*held)
		}
		told = held.Key
		stay := true
		var ended error
		select {
		case <-p.w.done:
		case <-extend.C:
		case <-ctx.Done():
			stay = false
		case <-s.closed:
			stay, ended = false, driver.ErrClosed
		}
		grant, held, err = p.step(stay)
		p.way.tell()
		switch {
		case held == nil:
			return grant, err
		case ended != nil:
			return driver.Grant{}, ended
		case !stay:
			return driver.Grant{}, err
		}
	}
}

// step goes as far as it can without waiting. If it cannot take all claims, it says who is in
// the way. With stay, the set then waits there; otherwise it holds nothing any more.
func (p *set) step(stay bool) (driver.Grant, *driver.HeldError, error) {
	defer p.mem.unlock(p.mem.lock(p.req.Claims))
	p.way = want{}
	now := time.Now()
	reach, err := p.reach(now)
	switch {
	case err != nil:
		p.giveUp(now)
		return driver.Grant{}, nil, err
	case reach == len(p.req.Claims):
		return p.complete(now), nil, nil
	}
	next := p.req.Claims[reach]
	e := p.mem.shard(next.Key).entries[next.Key]
	held := e.held(now)
	p.way = e.want()
	if p.w.entry != e {
		held.Ahead = e.line.n + e.readers.n
	}
	if !stay {
		p.giveUp(now)
		return driver.Grant{}, held, held
	}
	p.wait(reach, now)
	return driver.Grant{}, held, held
}

// reach returns how many claims, from the first, the set has or could have now. It changes
// nothing except what time has changed.
func (p *set) reach(now time.Time) (int, error) {
	reach := len(p.req.Claims)
	for i, c := range p.req.Claims {
		e := p.mem.shard(c.Key).live(c.Key, now)
		if e == nil {
			continue
		}
		if e.find(p.req.Owner) == nil {
			if !e.place().Admits(c) {
				reach = min(reach, i)
			}
			continue
		}
		if err := e.sameMode(c); err != nil {
			return 0, err
		}
	}
	return reach, nil
}

// wait takes the claims up to reach and waits for the next.
func (p *set) wait(reach int, now time.Time) {
	token, _ := p.mem.take(now, 0)
	for i, c := range p.req.Claims {
		s := p.mem.shard(c.Key)
		switch e := s.entries[c.Key]; {
		case i < reach:
			p.take(s, c, token, now)
		case i == reach && p.w.entry == e:
			// It keeps its place in line.
		case i == reach:
			p.unqueue(now)
			s.enqueue(e, p.w, c, now)
		case e != nil:
			// The set held this claim before it lost an earlier one.
			p.drop(s, e, now)
		}
	}
}

// take makes the set hold c: for another term if it holds c already, otherwise with token.
func (p *set) take(s *shard, c driver.Claim, token uint64, now time.Time) *holder {
	e := s.entries[c.Key]
	if e == nil {
		e = s.open(c.Key, now)
	}
	h := e.find(p.req.Owner)
	if h == nil {
		return s.hold(e, p.req, c, token, now)
	}
	e.extend(h, p.req.TTL, now)
	return h
}

// complete takes all claims under one token: the set's own if it was granted before, otherwise
// a new one.
func (p *set) complete(now time.Time) driver.Grant {
	p.unqueue(now)
	token, again := p.token()
	if !again {
		token, _ = p.mem.take(now, 0)
	}
	for _, c := range p.req.Claims {
		s := p.mem.shard(c.Key)
		if e := s.entries[c.Key]; e != nil {
			e.stamp(p.req.Owner, token, now) // before take, which may admit readers under greater tokens
		}
		p.take(s, c, token, now).partial = false
	}
	return driver.Grant{Owner: p.req.Owner, Claims: p.req.Claims, TTL: p.req.TTL, Token: token, Since: now}
}

// token returns the token of the set, if it was granted before.
func (p *set) token() (token uint64, ok bool) {
	for i, c := range p.req.Claims {
		e := p.mem.shard(c.Key).entries[c.Key]
		if e == nil {
			return 0, false
		}
		h := e.find(p.req.Owner)
		if h == nil || h.partial || (i > 0 && h.token != token) {
			return 0, false
		}
		token = h.token
	}
	return token, true
}

// giveUp ends everything that the set holds or waits for.
func (p *set) giveUp(now time.Time) {
	p.unqueue(now)
	for _, c := range p.req.Claims {
		s := p.mem.shard(c.Key)
		if e := s.entries[c.Key]; e != nil {
			p.drop(s, e, now)
		}
	}
}

// drop ends the set's lease on e, unless it was granted as a whole set before.
func (p *set) drop(s *shard, e *entry, now time.Time) {
	if h := e.find(p.req.Owner); h != nil && h.partial {
		s.drop(e, h, now)
	}
}

// unqueue takes the set out of its line, and discards an answer that came meanwhile.
func (p *set) unqueue(now time.Time) {
	if e := p.w.entry; e != nil {
		s := p.mem.shard(e.key)
		s.remove(p.w)
		s.serve(e, now)
	}
	select {
	case <-p.w.done:
	default:
	}
}
