package sim

import (
	"fmt"
	"slices"
	"time"
)

// Nodes is how many independent servers a fleet with redlock has.
const Nodes = 5

// minority is how many of them may be down, or have forgotten their votes.
const minority = Nodes / 2

// kindsOfNodes are those of a fleet with redlock. Each strikes a minority, and is over when all vote again.
var kindsOfNodes = slices.Concat(kindsOfProcesses, []kind{
	{"freeze", servers, 0.2, 2, false, func(f *fleet, x *Fault) {
		freeze(f.some(x, minority), x.Lasts)
		time.Sleep(x.Lasts)
	}},
	{"empty", servers, 0, 2, false, func(f *fleet, x *Fault) {
		f.renew(x.Lasts, f.some(x, minority))
	}},
	// Leases have the votes of three nodes, and two of these forget them. With the two that had no vote
	// to give, that would be a quorum.
	{"amnesia", servers, 0.5, 1, false, func(f *fleet, x *Fault) {
		all := f.some(x, Nodes)
		freeze(all[:minority], x.Lasts)
		time.Sleep(x.Lasts)
		f.renew(0, all[minority:][:minority])
	}},
	{"flush", servers, 1, 2, false, func(f *fleet, x *Fault) {
		for range 20 {
			for _, s := range f.servers {
				s.do("SCRIPT", "FLUSH")
			}
			time.Sleep(x.Lasts / 20)
		}
	}},
	{"disk", servers, 0.5, 2, false, func(f *fleet, x *Fault) {
		slow, hit := x.of(2).between(0, f.TTL/2), f.some(x, minority)
		each(hit, func(s *server) { s.disk = slow })
		time.Sleep(x.Lasts)
		each(hit, func(s *server) { s.disk = 0 })
	}},
}, kindsOfNetwork)

// some returns up to so many of the servers; all of them in an order that the seed gives.
func (f *fleet) some(x *Fault, most int) []*server {
	order := make([]int, len(f.servers))
	for i := range order {
		order[i] = i
	}
	shuffle(order, x.of(1))
	if most < len(order) {
		order = order[:1+x.of(3).below(most)]
	}
	x.Place = fmt.Sprint("nodes ", order)
	var hit []*server
	for _, i := range order {
		hit = append(hit, f.servers[i])
	}
	return hit
}

func each(hit []*server, change func(s *server)) {
	for _, s := range hit {
		s.set(func() { change(s) })
	}
}

func freeze(hit []*server, lasts time.Duration) {
	each(hit, func(s *server) { s.frozen = time.Now().Add(lasts) })
}

// renew starts servers anew, without their data, and waits until they vote.
func (f *fleet) renew(down time.Duration, hit []*server) {
	f.outage(down, func() {
		for _, s := range hit {
			s.redis.FlushAll()
		}
	}, hit...)
	time.Sleep(maxTTL)
}
