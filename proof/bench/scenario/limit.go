package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/proof/bench/raw"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// These scripts do the least that a lock with an owner and a fencing token needs: take the key
// if it is free and number the grant; delete it if it is still ours. Each works on as many keys
// as it is given. KEYS[1] is the counter of tokens.
const (
	grantScript = `
local token = redis.call('INCRBY', KEYS[1], #KEYS - 1)
local granted = {}
for i = 2, #KEYS do
  granted[i - 1] = redis.call('SET', KEYS[i], ARGV[i] .. string.format(':%.0f', token + 2 - i), 'NX', 'PX', ARGV[1])
end
return granted`
	freeScript = `
local freed = 0
for i = 2, #KEYS do
  local holder = redis.call('GET', KEYS[i])
  if holder and string.sub(holder, 1, #ARGV[i]) == ARGV[i] then
    freed = freed + redis.call('DEL', KEYS[i])
  end
end
return freed`
)

// form is a way to send the operations of all callers: over how many connections, and with how
// many keys in one call of a script. Further keys of a connection go in further calls, sent at
// the same time.
type form struct{ conns, perCall int }

// question says which limit to measure: that of a number of callers, whose operations are a
// command each, or many of them in one command.
type question struct {
	callers int
	grouped bool
}

// forms are the forms that may be the fastest.
func (q question) forms() []form {
	var all []form
	for conns := 1; conns <= min(4, q.callers); conns *= 2 {
		share := q.callers / conns
		if !q.grouped {
			all = append(all, form{conns, 1})
			continue
		}
		for perCall := 16; perCall < share; perCall *= 4 {
			all = append(all, form{conns, perCall})
		}
		all = append(all, form{conns, share})
	}
	return all
}

// limit measures the row of the same name: how many pairs the server makes if it gets only
// prepared bytes, with no more operations under way than callers would have. It searches for
// the fastest form once.
func (e *Env) limit(ctx context.Context, q question, span time.Duration) ([]stats.Sample, error) {
	if err := e.reset(ctx); err != nil {
		return nil, err
	}
	best, known := e.best[q]
	if !known {
		var err error
		if best, err = e.search(ctx, q, span/8); err != nil {
			return nil, err
		}
		if e.best == nil {
			e.best = make(map[question]form)
		}
		e.best[q] = best
	}
	did, spent, err := e.flood(ctx, q.callers, best, span)
	if err != nil {
		return nil, err
	}
	return append(pairFigures(did, span), spent.figures(did)...), nil
}

// search tries every form twice, so that a form that met a busy moment gets another chance.
func (e *Env) search(ctx context.Context, q question, span time.Duration) (best form, err error) {
	var most uint64
	forms := q.forms()
	for _, f := range append(forms, forms...) {
		did, _, err := e.flood(ctx, q.callers, f, span)
		if err != nil && !errors.Is(err, errNothing) { // errNothing: that was a busy moment
			return best, fmt.Errorf("%+v: %w", f, err)
		}
		if did.Done > most {
			most, best = did.Done, f
		}
	}
	if most == 0 {
		return best, errNothing
	}
	return best, nil
}

// flood sends pairs in a form for a while.
func (e *Env) flood(ctx context.Context, callers int, f form, span time.Duration) (_ report, _ cost, err error) {
	share := callers / f.conns
	batches := make([]*batch, f.conns)
	for i := range batches {
		b, err := newBatch(ctx, e.Addrs[0], i*share, share, f.perCall)
		if err != nil {
			return report{}, cost{}, err
		}
		defer closing(&err, b.conn)
		batches[i] = b
	}
	did, spent, err := e.metered(ctx, load{f.conns, warm(span), span}, func(_ context.Context, i int) (time.Duration, error) {
		return batches[i].pairs()
	})
	did.Done *= uint64(share)
	return did, spent, err
}

// batch is what one connection sends: bytes that are the same every time.
type batch struct {
	conn        *raw.Conn
	grant, free []byte
	calls       int // of either
}

// newBatch prepares calls for the keys from first on.
func newBatch(ctx context.Context, addr string, first, keys, perCall int) (_ *batch, err error) {
	b := new(batch)
	if b.conn, err = raw.Dial(ctx, addr); err != nil {
		return nil, err
	}
	hashes := make([]string, 2)
	for i, script := range []string{grantScript, freeScript} {
		if hashes[i], err = b.conn.Load(script); err != nil {
			closing(&err, b.conn)
			return nil, err
		}
	}
	for last := first + keys; first < last; first += perCall {
		n := min(perCall, last-first)
		names, owners := []string{"{lock:}:token"}, []string{"30000"}
		for i := range n {
			names = append(names, fmt.Sprintf("lock:user:status:%d", first+i))
			owners = append(owners, strings.Repeat("o", 60)) // as long as keyturn's owners
		}
		args := append(names, owners...)
		count := fmt.Sprint(len(names))
		b.grant = raw.Command(b.grant, append([]string{"EVALSHA", hashes[0], count}, args...)...)
		b.free = raw.Command(b.free, append([]string{"EVALSHA", hashes[1], count}, args...)...)
		b.calls++
	}
	return b, nil
}

// pairs locks all keys of the batch, then unlocks them.
func (b *batch) pairs() (time.Duration, error) {
	began := time.Now()
	if err := b.conn.Do(b.grant, b.calls); err != nil {
		return 0, err
	}
	err := b.conn.Do(b.free, b.calls)
	return time.Since(began), err
}
