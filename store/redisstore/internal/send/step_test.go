package send

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
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
	if _, err := c.inbox.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	c.ask("writer", driver.Exclusive("k"))
	for i := range readers {
		c.ask(fmt.Sprint("r", i), driver.Shared("k"))
	}
	c.ask("next", driver.Exclusive("k"))
	c.release("writer", driver.Exclusive("k"))
	if n := c.holders(); n != 64 {
		t.Fatalf("%d readers are in with the first step", n)
	}
	return c
}

func (c *crowd) send(r *Request) {
	c.t.Helper()
	if !c.s.Await(c.ctx, nil, r.Alone()) || r.Err != nil {
		c.t.Fatal(r.Err)
	}
}

func (c *crowd) ask(owner string, claim driver.Claim) {
	c.t.Helper()
	c.send(ask(c.s, owner, c.name, claim))
}

func (c *crowd) release(owner string, claim driver.Claim) {
	c.t.Helper()
	r := new(Request)
	c.s.Names.Release(&r.Call, owner, []driver.Claim{claim}, 0)
	c.send(r)
}

// holders are those that read; nobody else's lease is in the set.
func (c *crowd) holders() int64 { return c.client.ZCard(c.ctx, "{lock:k}:h").Val() }

// next is the first message that names no token: who is to look.
func (c *crowd) next() string {
	c.t.Helper()
	for {
		m, err := c.inbox.ReceiveTimeout(c.ctx, 5*time.Second)
		if err != nil {
			c.t.Fatal(err)
		}
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
		if next != fmt.Sprint("r", c.holders()) {
			t.Fatalf("%s is to take the next step, %d are in", next, c.holders())
		}
		c.ask(next, driver.Shared("k"))
		if n := c.holders(); n != want {
			t.Fatalf("%d readers are in, want %d", n, want)
		}
	}
	for range 2 { // it comes, and looks
		c.ask("late", driver.Shared("k"))
		if n := c.holders(); n != readers {
			t.Fatalf("%d readers are in after the late one asked", n)
		}
	}
	for i := range readers {
		c.release(fmt.Sprint("r", i), driver.Shared("k"))
	}
	if v := c.client.Get(c.ctx, "lock:k").Val(); len(v) < 5 || v[:5] != "next:" {
		t.Fatalf("the lock says %q", v)
	}
	c.release("next", driver.Exclusive("k"))
	if n := c.holders(); n != 1 {
		t.Errorf("%d readers are in after the writer", n)
	}
}

// TestStepsOfOneCall: each of ten requests that leave together may let in one, and all of them 63
// more, or a group would be as long as its requests one after the other.
func TestStepsOfOneCall(t *testing.T) {
	t.Parallel()
	c := crowded(t)
	var all []*Request
	for i := range 10 {
		r := new(Request)
		c.s.Names.Release(&r.Call, fmt.Sprint("r", i), []driver.Claim{driver.Shared("k")}, 0)
		all = append(all, r)
	}
	c.s.sendGroup(all)
	if n := c.holders(); n != 64-10+10+63 {
		t.Errorf("%d readers are in", n)
	}
}

// TestLeftOverReadersGoBeforeTheWriter, also when all that were let in are done before the next
// step: their ends are the steps then, whether or not the one that was told is alive.
func TestLeftOverReadersGoBeforeTheWriter(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *crowd, from, to int){
		"released": func(c *crowd, from, to int) {
			for i := from; i < to; i++ {
				c.release(fmt.Sprint("r", i), driver.Shared("k"))
			}
		},
		"all at once": func(c *crowd, from, to int) {
			var all []*Request
			for i := from; i < to; i++ {
				r := new(Request)
				c.s.Names.Release(&r.Call, fmt.Sprint("r", i), []driver.Claim{driver.Shared("k")}, 0)
				all = append(all, r)
			}
			c.s.sendGroup(all)
		},
		"all dead except one": func(c *crowd, from, to int) {
			for i := from; i < to-1; i++ {
				c.client.ZAdd(c.ctx, "{lock:k}:h", redis.Z{Score: 1, Member: fmt.Sprint("r", i)})
			}
			c.release(fmt.Sprint("r", to-1), driver.Shared("k"))
		},
		"by force": func(c *crowd, _, _ int) {
			r := new(Request)
			c.s.Names.ForceRelease(&r.Call, "k", "test", time.Minute, nil)
			c.send(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crowded(t)
			c.ask("late", driver.Shared("k"))
			for from := 0; from < readers; {
				members := c.client.ZRange(c.ctx, "{lock:k}:h", 0, -1).Val()
				if len(members) == 0 {
					t.Fatalf("no reader is in, %d are done; the lock says %q", from, c.client.Get(c.ctx, "lock:k").Val())
				}
				for _, owner := range members {
					if owner == "late" {
						t.Fatalf("a reader passed the writer when %d were done", from)
					}
				}
				end(c, from, from+len(members))
				from += len(members)
			}
			if v := c.client.Get(c.ctx, "lock:k").Val(); len(v) < 5 || v[:5] != "next:" {
				t.Fatalf("the lock says %q after all readers", v)
			}
		})
	}
}
