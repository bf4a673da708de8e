package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// parcel is a group's requests as group.lua reads them. Those that are plain go along
// as two words, with a line for each part of them, because what a request costs both
// sides is mostly the number of its words; nothing in them contains a line feed. A
// parcel is told each time that it is written to a connection, as a [wire] is.
type parcel struct {
	group []*request // ends, begins and others, in this order
	begin int        // where the begins begin
	other int        // where the others begin
	text  []byte
	cut   int   // where the text of the begins begins
	key   any   // the counter's, a string
	ttl   int64 // of the counter, in ms; 0: for ever
}

// sort takes the requests in, in order.
func (p *parcel) sort(group []*request) {
	for _, r := range group {
		if r.isPlain() {
			p.other++
		}
		if r.isEnd() {
			p.begin++
		}
	}
	if len(group) == 1 {
		p.group = group
		return
	}
	p.group = make([]*request, len(group))
	ends, begins, others := 0, p.begin, p.other
	for _, r := range group {
		at := &others
		switch {
		case r.isEnd():
			at = &ends
		case r.isPlain():
			at = &begins
		}
		p.group[*at] = r
		*at++
	}
}

// pack puts the requests in the order in which group.lua answers them.
func (ks keyspace) pack(group []*request) *parcel {
	p := &parcel{key: ks.counterOf(group[0]), ttl: ks.counterTTL()}
	p.sort(group)
	size := 0
	for _, r := range group {
		r.answered = false
		size += r.brief.size() + len(ks.prefix)
	}
	b := make([]byte, 0, size)
	for _, r := range p.group[:p.begin] {
		b = r.brief.end(b, ks)
	}
	p.cut = len(b)
	for _, r := range p.group[p.begin:p.other] {
		b = r.brief.begin(b, ks)
	}
	p.text = b
	return p
}

// processor is what clients and pipelines have in common.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

var groupHash any = redis.NewScript(groupText).Hash()

// call has c run the script, by its hash or in full: as redis.Script does, but for a
// few allocations, which are most of those of a request that leaves alone.
func (p *parcel) call(ctx context.Context, c processor, inFull bool) *redis.Cmd {
	args := append(make([]any, 0, 7), "evalsha", groupHash, 1, p.key, (*ends)(p), p, p.ttl)
	if inFull {
		args[0], args[1] = "eval", groupText
	}
	for _, r := range p.group[p.other:] {
		own := r.args[:len(r.args)-1] // without its wire: there is one for all
		args = append(args, grouped[r.script], len(r.keys), len(own))
		for _, key := range r.keys {
			args = append(args, key)
		}
		args = append(args, own...)
	}
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, cmd) // which cmd remembers
	return cmd
}

// ends is the first word of a parcel.
type ends parcel

// MarshalBinary implements encoding.BinaryMarshaler.
func (e *ends) MarshalBinary() ([]byte, error) { return e.text[:e.cut], nil }

// String is for hooks that print commands.
func (*ends) String() string { return "" }

// MarshalBinary implements encoding.BinaryMarshaler.
func (p *parcel) MarshalBinary() ([]byte, error) {
	now := time.Now()
	for _, r := range p.group {
		r.wire.wrote(now)
	}
	return p.text[p.cut:], nil
}

// String is for hooks that print commands.
func (p *parcel) String() string { return fmt.Sprint(len(p.group), " requests") }

// deliver hands out the answers, and err instead of them if there is one.
func (p *parcel) deliver(cmd *redis.Cmd) error {
	replies, err := cmd.Slice()
	if err == nil && len(replies)%2 != 1 {
		err = fmt.Errorf("%w: reply %.100v to %d requests", ErrCorrupt, replies, len(p.group))
	}
	if err != nil {
		for _, r := range p.group {
			r.err = err
		}
		return err
	}
	token, named := number(replies[0]), replies[1:]
	for i := 0; i < len(named); i += 2 {
		if at := number(named[i]); at >= 1 && at <= int64(len(p.group)) {
			r := p.group[at-1]
			r.answered = true
			r.value, r.err = named[i+1], p.errorIn(named[i+1])
		}
	}
	for i, r := range p.group {
		switch {
		case r.answered:
		case i < p.begin:
			r.value, r.err = int64(1), nil
		case i < p.other && token > 0:
			r.value, r.err = token, nil
			token++
		default:
			r.err = fmt.Errorf("%w: no reply to request %d of %d", ErrCorrupt, i+1, len(p.group))
		}
	}
	return nil
}

// errorIn is the error of one request in a group, if that is what its reply says.
func (p *parcel) errorIn(reply any) error {
	said, ok := reply.([]any)
	if !ok || len(said) != 2 || said[0] != "error" {
		return nil
	}
	err := text(said[1])
	if p.ttl > 0 && strings.Contains(err, "attempted to access a non local key") {
		// While a slot moves, its keys are in two places. Had the server been told
		// the names of all, it would have said so, and run nothing. The short scripts
		// find out by a command, as they look at all keys before they write.
		err = "TRYAGAIN " + err
	}
	return serverError(err)
}
