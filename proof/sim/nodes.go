package sim

import (
	"fmt"
	"slices"
	"time"
)

// nodes is how many independent servers a fleet with redlock has.
const nodes = 5

// minority is how many of them may be down, or have forgotten their votes.
const minority = nodes / 2

// kindsOfNodes are those of a fleet with redlock. Each strikes a minority, and is over when all vote again.
var kindsOfNodes = slices.Concat(kindsOfProcesses, []kind{
	{"freeze", servers, 0.2, 2, false, func(f *fleet, x *Fault) {
		freeze(hosts(f.some(x, minority)), x.Lasts)
	}},
	{"empty", servers, 0, 2, false, func(f *fleet, x *Fault) {
		f.renew(x.Lasts, f.some(x, minority))
	}},
	// Leases have the votes of three nodes, and two of these forget them. With the two that had no vote
	// to give, that would be a quorum.
	{"amnesia", servers, 0.5, 1, false, func(f *fleet, x *Fault) {
		all := f.some(x, nodes)
		freeze(hosts(all[:minority]), x.Lasts)
		f.renew(0, all[minority:][:minority])
	}},
	flush,
	{"disk", servers, 0.5, 2, false, func(f *fleet, x *Fault) {
		slowDisk(hosts(f.some(x, minority)), x.of(2).between(0, f.TTL/2), x.Lasts)
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

// hosts returns the servers' hosts.
func hosts(all []*server) []*host {
	var hosts []*host
	for _, s := range all {
		hosts = append(hosts, s.host)
	}
	return hosts
}

// renew starts servers anew, without their data, and waits until they vote.
func (f *fleet) renew(down time.Duration, hit []*server) {
	f.outage(down, func() {
		for _, s := range hit {
			s.redis.FlushAll()
		}
	}, hosts(hit)...)
	time.Sleep(maxTTL)
}
