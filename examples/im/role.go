package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/keyturn/keyturn/examples/im/gateway"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/service"
)

// configVar is how a process of the fleet gets its node.Config. Not as an
// argument: every user of the machine could read a password there.
const configVar = "KEYTURN_IM_CONFIG"

func environ(cfg node.Config) ([]string, error) {
	text, err := json.Marshal(cfg)
	return []string{configVar + "=" + string(text)}, err
}

// role is what this process is to do as a part of the fleet; nil if it is the
// one that drives it.
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
