package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// parcel is a group's requests as group.lua reads them, and goes along as the only
// argument: MessagePack, which the server unpacks in one go, and of which neither
// side makes words one by one. It is told each time that it is written to a
// connection, as a [wire] is.
type parcel struct {
	group []*request // ends, begins and others, in this order
	begin int        // where the begins begin
	other int        // where the others begin
	bytes []byte
	key   any   // the counter's, a string
	ttl   int64 // of the counter, in ms; 0: for ever
}

// sort takes the requests in, in order.
func (p *parcel) sort(group []*request) {
	for _, r := range group {
		switch {
		case !r.isPlain():
		case r.script == releaseScript:
			p.begin++
			fallthrough
		default:
			p.other++
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
		case r.isPlain() && r.script == releaseScript:
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
	size := 16
	for _, r := range group {
		r.answered = false
		size += r.brief.size() + 2*len(ks.prefix)
	}
	b := packed(make([]byte, 0, size)).array(3)
	b = b.array(2 * p.begin)
	for _, r := range p.group[:p.begin] {
		b = ks.packEnd(b, &r.brief)
	}
	b = b.array(5 * (p.other - p.begin))
	for _, r := range p.group[p.begin:p.other] {
		b = ks.packBegin(b, &r.brief)
	}
	b = b.array(len(p.group) - p.other)
	for _, r := range p.group[p.other:] {
		b = b.request(r)
	}
	p.bytes = b
	return p
}

func (ks keyspace) packEnd(b packed, p *brief) packed {
	b = b.text(ks.prefix, p.key)
	var room [24]byte
	mine := append(room[:0], ':')
	if p.number != 0 {
		mine = append(strconv.AppendInt(mine, p.number, 10), ':')
	}
	return b.words(p.owner, mine, "")
}

func (ks keyspace) packBegin(b packed, p *brief) packed {
	b = b.text(ks.prefix, p.key).text(p.owner, "")
	var room [96]byte
	b = b.words("", strconv.AppendInt(room[:0], p.number, 10), "")
	return b.text(p.notes, "").words("", p.wait.words(room[:0]), p.wait.inbox)
}

// processor is what clients and pipelines have in common.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

var groupHash any = redis.NewScript(groupText).Hash()

// call has c run the script, by its hash or in full: as redis.Script does, but for a
// few allocations, which are most of those of a request that leaves alone.
func (p *parcel) call(ctx context.Context, c processor, inFull bool) *redis.Cmd {
	args := append(make([]any, 0, 6), "evalsha", groupHash, 1, p.key, p)
	if inFull {
		args[0], args[1] = "eval", groupText
	}
	if p.ttl > 0 {
		args = append(args, p.ttl)
	}
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, cmd) // which cmd remembers
	return cmd
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (p *parcel) MarshalBinary() ([]byte, error) {
	now := time.Now()
	for _, r := range p.group {
		r.wire.wrote(now)
	}
	return p.bytes, nil
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
