package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
)

// member is a process of the fleet: a service or a gateway.
type member struct {
	name, role string
	addr       string   // where it listens; "": it has not been started yet
	args       []string // after the address
	env        []string
	pid        int
}

// start starts a member; again at its old address, where the others look for it.
func (m *member) start(ctx context.Context, f *fleet.Fleet) error {
	args := append([]string{m.role, cmp.Or(m.addr, "127.0.0.1:0")}, m.args...)
	addr, pid, err := f.Start(ctx, m.name, append(m.env, nameVar+"="+m.name), args...)
	if err != nil {
		return err
	}
	m.addr, m.pid = addr, pid
	return nil
}

// start starts the services, then the gateways in front of them.
func start(ctx context.Context, f *fleet.Fleet, cfg node.Config, p *report.Progress) ([]*member, error) {
	env, err := environ(cfg)
	if err != nil {
		return nil, err
	}
	var all []*member
	var pids []string
	for _, some := range []struct {
		role string
		n    int
	}{{"service", services}, {"gateway", gateways}} {
		behind := addresses(all, "service")
		for i := range some.n {
			m := &member{name: fmt.Sprintf("%s %d", some.role, i+1), role: some.role, args: behind, env: env}
			if err := m.start(ctx, f); err != nil {
				return nil, err
			}
			all = append(all, m)
			pids = append(pids, fmt.Sprintf("%s pid %d", m.name, m.pid))
		}
	}
	p.Say("  %s", strings.Join(pids, ", "))
	return all, nil
}

// addresses returns those of the members with this role.
func addresses(all []*member, role string) (addrs []string) {
	for _, m := range all {
		if m.role == role {
			addrs = append(addrs, m.addr)
		}
	}
	return addrs
}
