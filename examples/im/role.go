package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/keyturn/keyturn/examples/im/gateway"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/service"
	"github.com/keyturn/keyturn/examples/internal/fleet"
)

const (
	services = 2
	gateways = 2
	// configVar is the environment variable with a process's node.Config. An argument would show a
	// password to every user of the machine.
	configVar = "KEYTURN_IM_CONFIG"
)

// launch starts the services, then the gateways in front of them, and returns the addresses of
// the gateways.
func launch(ctx context.Context, f *fleet.Fleet, cfg node.Config, tell say) ([]string, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	var pids []string
	start := func(role string, n int, args ...string) (addrs []string, err error) {
		for i := range n {
			name := fmt.Sprintf("%s %d", role, i+1)
			addr, pid, err := f.Start(ctx, name, []string{configVar + "=" + string(text)}, append([]string{role}, args...)...)
			if err != nil {
				return nil, err
			}
			addrs = append(addrs, addr)
			pids = append(pids, fmt.Sprintf("%s pid %d", name, pid))
		}
		return addrs, nil
	}
	behind, err := start("service", services)
	if err != nil {
		return nil, err
	}
	addrs, err := start("gateway", gateways, behind...)
	tell("  %s", strings.Join(pids, ", "))
	return addrs, err
}

// role returns what this process does as a part of the fleet; nil: it drives the fleet.
func role(args []string) func(ctx context.Context, ready func(addr string)) error {
	text, ok := os.LookupEnv(configVar)
	if !ok || len(args) == 0 {
		return nil
	}
	return func(ctx context.Context, ready func(addr string)) (err error) {
		var cfg node.Config
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			return err
		}
		n, err := node.Open(cfg)
		if err != nil {
			return err
		}
		// After the handlers, which may still hold locks.
		defer func() { err = errors.Join(err, n.Close()) }()
		switch args[0] {
		case "service":
			return service.Serve(ctx, n, ready)
		case "gateway":
			return gateway.Serve(ctx, n, args[1:], ready)
		}
		return errors.New("no such role: " + args[0])
	}
}
