package script

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// batch is several calls in the one form that group.lua reads. Plain calls go as two words,
// with a line for each part of a call: what a call costs both sides is mostly the number of its
// words. No part contains a line feed. The client marshals a batch each time that it writes it
// to a connection, and the batch counts that, as [Attempts] does.
type batch struct {
	calls []*Call             // in the order of their kinds, with the others at the end
	first [plainKinds + 1]int // index of the first call of each kind; the last: of the others
	text  []byte              // of those that end, acquire or begin
	cut   int                 // where the text of the latter begins
	key   any                 // the counter's, a string
	ttl   int64               // of the counter, in ms; 0: for ever
	// wanted is how many tokens each acquire wants reserved: the greatest number that any of
	// them wants. The server has enough for the few that are handed on; see take_tokens in
	// tokens.lua.
	wanted uint64
}

// sort puts the calls in order.
func (p *batch) sort(calls []*Call) {
	place := func(c *Call) plainKind {
		if c.IsPlain() {
			return c.plain.kind
		}
		return plainKinds
	}
	for _, c := range calls {
		for kind := place(c) + 1; kind <= plainKinds; kind++ {
			p.first[kind]++
		}
	}
	p.calls = make([]*Call, len(calls))
	next := p.first
	for _, c := range calls {
		at := &next[place(c)]
		p.calls[*at] = c
		*at++
	}
}

// of returns the calls of some kinds that follow each other: from the first to before the second.
func (p *batch) of(from, to plainKind) []*Call { return p.calls[p.first[from]:p.first[to]] }

// newBatch puts the calls in the order in which group.lua answers them.
func newBatch(n Names, calls []*Call) *batch {
	p := &batch{key: n.counterOf(calls[0]), ttl: n.counterTTL()}
	p.sort(calls)
	size := 0
	for _, r := range calls {
		r.answered = false
		size += r.plain.size() + len(n.Prefix)
	}
	b := make([]byte, 0, size)
	for _, r := range p.of(ends, completes) {
		b = r.plain.end(b, n)
	}
	p.cut = len(b)
	for _, r := range p.of(acquires, plainKinds) {
		b = r.plain.begin(b, n)
		p.wanted = max(p.wanted, r.plain.asks.HandOffs)
	}
	p.text = b
	return p
}

// run sends the batch through c, by the script's hash or in full. It does what redis.Script
// does, with fewer allocations: the others are most of the allocations of a call that leaves
// alone.
func (p *batch) run(ctx context.Context, c Processor, n Names, inFull bool) *redis.Cmd {
	records := p.of(completes, acquires)
	args := append(make([]any, 0, 12+6*len(records)), "evalsha", group.hash, 1, p.key)
	if lock := p.calls[0].Slot(n); lock != "" {
		args[2] = 3
		args = append(args, lock, "{"+lock+"}:r")
	}
	args = append(args, (*ending)(p), p, len(p.of(onces, plainKinds)), p.ttl, p.wanted, len(records))
	if inFull {
		args[0], args[1] = "eval", group.text
	}
	for _, r := range records {
		args = r.plain.complete(args, n)
	}
	for _, r := range p.calls[p.first[plainKinds]:] {
		own := r.args[:len(r.args)-1] // without its attempts: there is one word of them for all
		args = append(args, grouped[r.script], len(r.keys), len(own))
		for _, key := range r.keys {
			args = append(args, key)
		}
		args = append(args, own...)
	}
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, cmd) // cmd keeps the error
	return cmd
}

// ending is the first word of a batch: its releases.
type ending batch

// MarshalBinary implements encoding.BinaryMarshaler.
func (e *ending) MarshalBinary() ([]byte, error) { return e.text[:e.cut], nil }

// String is for hooks that print commands.
func (*ending) String() string { return "" }

// MarshalBinary implements encoding.BinaryMarshaler.
func (p *batch) MarshalBinary() ([]byte, error) {
	now := time.Now()
	for _, r := range p.calls {
		r.Attempts.wrote(now)
	}
	return p.text[p.cut:], nil
}

// String is for hooks that print commands.
func (p *batch) String() string { return fmt.Sprint(len(p.calls), " calls") }

// deliver gives each call its answer. If there is an error, each call gets the error instead.
func (p *batch) deliver(cmd *redis.Cmd) error {
	replies, err := cmd.Slice()
	if err == nil && (len(replies) < 2 || len(replies)%2 != 0) {
		err = fmt.Errorf("%w: reply %.100v to %d calls", ErrCorrupt, replies, len(p.calls))
	}
	if err != nil {
		for _, r := range p.calls {
			r.Err = err
		}
		return err
	}
	token, reserved, named := number(replies[0]), number(replies[1]), replies[2:]
	for i := 0; i < len(named); i += 2 {
		if at := number(named[i]); at >= 1 && at <= int64(len(p.calls)) {
			r := p.calls[at-1]
			r.answered = true
			r.Value, r.Err = named[i+1], errorIn(named[i+1])
		}
	}
	for i, r := range p.calls {
		switch {
		case r.answered:
		case i < p.first[acquires]:
			r.Value, r.Err = int64(1), nil
		case i < p.first[plainKinds] && token > 0:
			r.Value, r.Err, r.reserved = token, nil, uint64(reserved)
			token += 1 + reserved
		default:
			r.Err = fmt.Errorf("%w: no reply to call %d of %d", ErrCorrupt, i+1, len(p.calls))
		}
	}
	return nil
}

// errorIn returns the error of one call in a batch, if its reply is an error.
func errorIn(reply any) error {
	said, ok := reply.([]any)
	if !ok || len(said) != 2 || said[0] != "error" {
		return nil
	}
	return moving(serverError(text(said[1])))
}
