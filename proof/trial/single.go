package trial

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/member"
)

// single is one server that keeps its data. Each process has a way to it of its own.
type single struct {
	whole
	t       *redistest.Run
	ttl     time.Duration
	server  *redistest.Server
	machine *redistest.Machine // nil: there is no C compiler
	ways    []*way
	client  *redis.Client
	emptied time.Time // when its data was lost last, by the server's clock
}

func newSingle(t *redistest.Run, c Config) bed {
	b := &single{t: t, ttl: c.ttl}
	if redistest.HasMachines() {
		b.server, b.machine = redistest.StartOnMachine(t, redistest.KeepData...)
	} else {
		b.server = redistest.Start(t, redistest.KeepData...)
	}
	b.ways = waysTo(t, c, b.server.Addr())
	b.client = prober(b.server.Addr())
	t.Cleanup(func() { _ = b.client.Close() })
	return b
}

func (b *single) attach(p *member.Process, place int) { p.Addrs = []string{b.ways[place].Addr()} }

func (b *single) leftovers(ctx context.Context) ([]string, error) { return leftovers(ctx, b.masters()) }

func (b *single) masters() []*redistest.Server              { return []*redistest.Server{b.server} }
func (b *single) probe(ctx context.Context, part int) error { return takes(ctx, b.client, probeKey, 0) }

func (b *single) faults() []fault {
	all := append(outages(b.t, b.ttl, b.server, func() {
		b.do("flushall")
		b.emptied = time.Now()
	}),
		flushScripts(b.masters),
		on("forget", true, func(s *stroke) {
			// The counter is lost, too, and the tokens of grants may be 1 ms ahead of the clock.
			if _, err := b.server.Client().TxPipelined(s.ctx, func(p redis.Pipeliner) error {
				p.FlushAll(s.ctx)
				return p.Do(s.ctx, "client", "pause", 3).Err()
			}); err != nil && s.ctx.Err() == nil {
				b.t.Fatalf("flushall: %w", err)
			}
			b.emptied = time.Now()
		}),
		on("memory", false, func(s *stroke) {
			b.do("config", "set", "maxmemory", "1")
			s.lasts(b.ttl/2, 2*b.ttl)
			b.do("config", "set", "maxmemory", "0")
		}),
	)
	evict := on("evict", false, func(s *stroke) {
		b.do("config", "set", "maxmemory-policy", "allkeys-random", "maxmemory", "1")
		s.lasts(b.ttl/5, b.ttl)
		b.do("config", "set", "maxmemory-policy", "noeviction", "maxmemory", "0")
	})
	evict.wrong = true
	all = append(all, evict)
	if b.machine != nil {
		all = append(all, on("clock", true, b.jump), on("disk", false, b.slowDisk))
	}
	return append(all, tangles(b.ways, b.ttl)...)
}

// jump sets the clock. Forward, leases end too early there. Backward, too late; and tokens may fall if
// the counter is lost, too. So the clock goes back no further than to the last loss of data, and
// nothing else strikes the server until it has caught up.
func (b *single) jump(s *stroke) {
	d := time.Duration(s.rand.Int64N(int64(4*b.ttl))) - 2*b.ttl
	if d < 0 {
		d = max(d, -time.Since(b.emptied))
		b.emptied = b.emptied.Add(-d)
	}
	s.place = "server " + d.Round(time.Millisecond).String()
	b.machine.Jump(d)
	if d < 0 {
		s.lasts(-d, -d)
	}
}

// slowDisk has every grant wait for the disk before it is answered, and all requests behind it.
func (b *single) slowDisk(s *stroke) {
	d := time.Duration(s.rand.Int64N(int64(b.ttl / 2)))
	s.place = "server " + d.Round(time.Millisecond).String()
	b.machine.SlowDisk(d)
	s.lasts(b.ttl/2, 2*b.ttl)
	b.machine.SlowDisk(0)
}

func (b *single) do(args ...any) {
	if err := b.server.Client().Do(context.Background(), args...).Err(); err != nil {
		b.t.Fatalf("%v: %w", args, err)
	}
}
