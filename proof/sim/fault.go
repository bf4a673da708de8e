package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/proof/history"
)

// Fault is something that goes wrong in a history. The seed decides what, when, for how long, and where.
type Fault struct {
	Nr    int
	Name  string
	At    time.Duration // since the beginning of the history
	Lasts time.Duration
	chance
	kind  kind
	Place string // what it has struck
	history.Span
}

func (f *Fault) String() string {
	return fmt.Sprintf("%d: %s of %s from %v for %v", f.Nr, f.Name, f.Place, time.Duration(f.From), time.Duration(f.To-f.From))
}

// kind is a kind of fault. Faults of one lane follow each other; those of different lanes come together
// as chance has it.
type kind struct {
	name string
	lane int
	// least and most are how long it lasts, in TTLs.
	least, most float64
	// loses: the store may forget leases and records. Then the guarantees admit that two hold a key.
	loses bool
	// strike does the harm, and returns when it is over.
	strike func(f *fleet, x *Fault)
}

// The lanes.
const (
	processes = iota
	servers
	networks
	lanes
)

// calm is the longest pause between two faults of a lane.
const calm = time.Second

// failover is a fault that loses what the replica does not have that becomes the master.
const failover = "failover"

// kinds are those of a fleet with one Redis.
var kinds = slices.Concat(kindsOfProcesses, []kind{
	empty,
	{"forget", servers, 0, 0, true, func(f *fleet, x *Fault) {
		// The counter is lost, too, and the tokens of grants may be 1 ms ahead of the clock.
		f.servers[0].set(func() { f.servers[0].frozen = time.Now().Add(3 * time.Millisecond) })
		f.lose()
	}},
	{failover, servers, 0.3, 0.7, true, func(f *fleet, x *Fault) {
		lags := f.servers[0].replicate()
		f.servers[0].set(func() { f.servers[0].alone = true })
		time.Sleep(x.Lasts)
		f.outage(x.of(1).between(0, f.TTL/5), func() {
			f.servers[0].promote(lags)
			f.emptied = time.Now()
		}, f.hosts[0])
		f.servers[0].set(func() { f.servers[0].alone = false })
	}},
	flush,
	{"memory", servers, 0.5, 2, false, func(f *fleet, x *Fault) {
		f.servers[0].set(func() { f.servers[0].full = true })
		time.Sleep(x.Lasts)
		f.servers[0].set(func() { f.servers[0].full = false })
	}},
	clock,
}, kindsOfHost, kindsOfNetwork)

// empty is a fault of the only server, whatever it is: it is started anew without its data.
var empty = kind{"empty", servers, 0, 1, true, func(f *fleet, x *Fault) { f.outage(x.Lasts, f.lose, f.hosts[0]) }}

// flush is one of all Redis servers: they forget their scripts, again and again.
var flush = kind{"flush", servers, 1, 2, false, func(f *fleet, x *Fault) {
	for range 20 {
		for _, s := range f.servers {
			s.do("SCRIPT", "FLUSH")
		}
		time.Sleep(x.Lasts / 20)
	}
}}

// clock is a fault of a server whose clock says when leases end.
var clock = kind{"clock", servers, 0, 0, true, func(f *fleet, x *Fault) { f.jump(x) }}

// kindsOfHost are those of the only server, whatever it is.
var kindsOfHost = []kind{
	{"freeze", servers, 0.2, 2, false, func(f *fleet, x *Fault) { freeze(f.hosts, x.Lasts) }},
	{"crash", servers, 0, 1, false, func(f *fleet, x *Fault) { f.outage(x.Lasts, func() {}, f.hosts...) }},
	{"disk", servers, 0.5, 2, false, func(f *fleet, x *Fault) { slowDisk(f.hosts, x.of(1).between(0, f.TTL/2), x.Lasts) }},
}

var kindsOfProcesses = []kind{
	{"kill", processes, 0, 0, false, func(f *fleet, x *Fault) {
		place := x.of(1).below(len(f.alive))
		p := f.alive[place]
		x.Place = fmt.Sprint("process ", p.nr)
		f.kill(p)
		if err := f.start(place); err != nil {
			panic(err) // the process before it had the same settings
		}
	}},
}

var kindsOfNetwork = []kind{
	tangle("cut", 0, 0, func(_ *fleet, _ *Fault, w *way) { w.cut() }),
	tangle("silence", 0.1, 1, func(_ *fleet, _ *Fault, w *way) { w.set(func() { w.silent = true }) }),
	tangle("replies", 0.1, 1, func(_ *fleet, _ *Fault, w *way) { w.set(func() { w.mute = true }) }),
	tangle("delay", 0.1, 1, func(f *fleet, x *Fault, w *way) {
		w.set(func() { w.slow = x.of(2).between(0, f.TTL) })
	}),
	{"fade", networks, 1, 1.5, false, func(f *fleet, x *Fault) {
		// The last answers before the silence come late, and nothing can be renewed after them.
		ways := f.ways(x)
		for _, w := range ways {
			w.set(func() { w.tardy = x.of(2).between(f.TTL/10, f.TTL/2) })
		}
		time.Sleep(x.of(3).between(f.TTL/2, f.TTL))
		for _, w := range ways {
			w.set(func() { w.silent = true })
		}
		time.Sleep(x.Lasts)
		heal(ways)
	}},
	tangle("late", 0.1, 1, func(f *fleet, x *Fault, w *way) {
		w.set(func() { w.late = x.of(2).between(0, f.TTL) })
	}),
	tangle("duplicate", 0, 0, func(_ *fleet, x *Fault, w *way) { w.repeat(x.of(2)) }),
}

// without returns the kinds that have other names.
func without(kinds []kind, names ...string) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return slices.Contains(names, k.name) })
}

// tangle is a fault of the network: harm is done to one way or to all, and lasts.
func tangle(name string, least, most float64, harm func(*fleet, *Fault, *way)) kind {
	return kind{name, networks, least, most, false, func(f *fleet, x *Fault) {
		ways := f.ways(x)
		for _, w := range ways {
			harm(f, x, w)
		}
		time.Sleep(x.Lasts)
		heal(ways)
	}}
}

func heal(ways []*way) {
	for _, w := range ways {
		w.heal()
	}
}

// ways returns those that a fault strikes: those of one process, or one of three times all of them.
func (f *fleet) ways(x *Fault) []*way {
	all := f.alive
	x.Place = "all ways"
	if n := x.of(1).below(3 * len(all)); n < 2*len(all) {
		all = all[n/2:][:1]
		x.Place = fmt.Sprint("the way of process ", all[0].nr)
	}
	var ways []*way
	for _, p := range all {
		ways = append(ways, p.ways...)
	}
	return ways
}

// outage has servers be down for a while, and come back.
func (f *fleet) outage(lasts time.Duration, meanwhile func(), hit ...*host) {
	for _, h := range hit {
		h.set(func() { h.down = true })
		for _, p := range f.alive {
			for _, w := range p.ways {
				if w.to == h {
					w.cut()
				}
			}
		}
	}
	meanwhile()
	time.Sleep(lasts)
	for _, h := range hit {
		h.restart()
		h.set(func() { h.down = false })
	}
}

// lose has the only server lose all data, and notes when.
func (f *fleet) lose() {
	f.erase()
	f.emptied = time.Now()
}

// jump sets the clock. Forward, leases end too early there. Backward, too late; and tokens may fall if
// the counter is lost, too. So the clock goes back no further than to the last loss of data, and nothing
// else strikes the server until it has caught up.
func (f *fleet) jump(x *Fault) {
	d := x.of(1).between(0, 4*f.TTL) - 2*f.TTL
	if d < 0 {
		d = max(d, -time.Since(f.emptied))
		f.emptied = f.emptied.Add(-d)
	}
	x.Place = "the server by " + d.String()
	f.setClock(d)
	if d < 0 {
		time.Sleep(-d)
	}
}

// plan makes the faults of a history. In each lane all kinds strike in an order that the seed gives,
// then all again in another one.
func plan(c chance, kinds []kind, lasts, ttl time.Duration) []*Fault {
	var all []*Fault
	for lane := range lanes {
		here := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.lane != lane })
		if len(here) == 0 {
			continue
		}
		at := time.Duration(0)
		for i := uint64(0); ; i++ {
			c := c.of(7, uint64(lane), i)
			if i%uint64(len(here)) == 0 {
				shuffle(here, c.of(1))
			}
			k := here[i%uint64(len(here))]
			at += c.of(2).between(calm/5, calm)
			if at >= lasts {
				break
			}
			x := &Fault{Name: k.name, At: at, chance: c, kind: k, Place: "the server"}
			x.Lasts = c.of(3).between(time.Duration(k.least*float64(ttl)), time.Duration(k.most*float64(ttl)))
			at += x.Lasts
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b *Fault) int { return int(a.At - b.At) })
	for i, x := range all {
		x.Nr = i + 1
	}
	return all
}

func shuffle[T any](all []T, c chance) {
	for i := range all {
		j := i + c.of(uint64(i)).below(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
}
