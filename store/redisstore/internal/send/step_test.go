package send

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

// crowd is many readers in line for "k" behind a writer, and then another writer; and one reader
// more that comes when the first writer is done. All have one inbox, in which somebody listens.
type crowd struct {
	t      *testing.T
	ctx    context.Context
	client *redis.Client
	s      *Sender
	inbox  *redis.PubSub
	name   string
}

const readers = 300

func crowded(t *testing.T) *crowd {
	t.Helper()
	ctx, client, s := connected(t)
	c := &crowd{t: t, ctx: ctx, client: client, s: s, name: s.Names.NewInbox()}
	c.inbox = client.Subscribe(ctx, c.name)
	t.Cleanup(func() { _ = c.inbox.Close() })
	_, err := c.inbox.Receive(ctx)
	must(t, err)
	c.ask("writer", driver.Exclusive("k"))
	for i := range readers {
		c.ask(fmt.Sprint("r", i), driver.Shared("k"))
	}
	c.ask("next", driver.Exclusive("k"))
	c.release("writer", driver.Exclusive("k"))
	n := c.holders()
	require(t, n == 64, "%d readers are in with the first step", n)
	return c
}

func (c *crowd) ask(owner string, claim driver.Claim) {
	c.t.Helper()
	answered(c.ctx, c.t, c.s, ask(c.s, owner, c.name, claim))
}

func (c *crowd) release(owner string, claim driver.Claim) {
	c.t.Helper()
	answered(c.ctx, c.t, c.s, release(c.s, owner, claim))
}

// together releases some readers in one call.
func (c *crowd) together(from, to int) {
	var all []*Request
	for i := from; i < to; i++ {
		all = append(all, release(c.s, fmt.Sprint("r", i), driver.Shared("k")))
	}
	c.s.sendGroup(all)
}

// holders are those that read; nobody else's lease is in the set.
func (c *crowd) holders() int64 { return c.client.ZCard(c.ctx, "{lock:k}:h").Val() }

// next is the first message that names no token: who is to look.
func (c *crowd) next() string {
	c.t.Helper()
	for {
		m, err := c.inbox.ReceiveTimeout(c.ctx, 5*time.Second)
		must(c.t, err)
		if said, ok := m.(*redis.Message); ok && said.Payload != "" {
			var owner string
			if n, _ := fmt.Sscanf(said.Payload, "%s %d", &owner, new(int)); n == 1 {
				return owner
			}
		}
	}
}

// TestReadersEnterInSteps: 64 with each, and the first that is left over is told to take the
// next. The writer behind them waits for all, and the reader behind the writer for it.
func TestReadersEnterInSteps(t *testing.T) {
	t.Parallel()
	c := crowded(t)
	for _, want := range []int64{128, 192, 256, readers} {
		next := c.next()
		is(t, "the one to take the next step", next, fmt.Sprint("r", c.holders()))
		c.ask(next, driver.Shared("k"))
		check(t, c.holders() == want, "%d readers are not in", want)
	}
	for range 2 { // it comes, and looks
		c.ask("late", driver.Shared("k"))
		check(t, c.holders() == readers, "a late reader got in")
	}
	for i := range readers {
		c.release(fmt.Sprint("r", i), driver.Shared("k"))
	}
	is(t, "the lock", c.client.Get(c.ctx, "lock:k").Val(), "next:")
	c.release("next", driver.Exclusive("k"))
	check(t, c.holders() == 1, "the late reader is not in after the writer")
}

// TestStepsOfOneCall: each of ten requests that leave together may let in one, and all of them 63
// more, or a group would be as long as its requests one after the other.
func TestStepsOfOneCall(t *testing.T) {
	t.Parallel()
	c := crowded(t)
	c.together(0, 10)
	is(t, "readers that are in", c.holders(), fmt.Sprint(64-10+10+63))
}

// TestLeftOverReadersGoBeforeTheWriter, also when all that were let in are done before the next
// step: their ends are the steps then, whether or not the one that was told is alive.
func TestLeftOverReadersGoBeforeTheWriter(t *testing.T) {
	t.Parallel()
	checktest.Each(t, map[string]func(c *crowd, from, to int){
		"released": func(c *crowd, from, to int) {
			for i := from; i < to; i++ {
				c.release(fmt.Sprint("r", i), driver.Shared("k"))
			}
		},
		"all at once": (*crowd).together,
		"all dead except one": func(c *crowd, from, to int) {
			for i := from; i < to-1; i++ {
				c.client.ZAdd(c.ctx, "{lock:k}:h", redis.Z{Score: 1, Member: fmt.Sprint("r", i)})
			}
			c.release(fmt.Sprint("r", to-1), driver.Shared("k"))
		},
		"by force": func(c *crowd, _, _ int) {
			r := new(Request)
			c.s.Names.ForceRelease(&r.Call, "k", "test", time.Minute, nil)
			answered(c.ctx, c.t, c.s, r)
		},
	}, func(t *testing.T, end func(c *crowd, from, to int)) {
		c := crowded(t)
		c.ask("late", driver.Shared("k"))
		for from := 0; from < readers; {
			members := c.client.ZRange(c.ctx, "{lock:k}:h", 0, -1).Val()
			if len(members) == 0 {
				t.Fatalf("no reader is in, %d are done; the lock says %q", from, c.client.Get(c.ctx, "lock:k").Val())
			}
			check(t, !slices.Contains(members, "late"), "a reader passed the writer when %d were done", from)
			end(c, from, from+len(members))
			from += len(members)
		}
		is(t, "the lock after all readers", c.client.Get(c.ctx, "lock:k").Val(), "next:")
	})
}
