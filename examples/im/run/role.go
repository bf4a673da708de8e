package run

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/keyturn/keyturn/examples/im/courier"
	"github.com/keyturn/keyturn/examples/im/gateway"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/service"
)

// configVar is the environment variable with a process's node.Config. An argument would show a
// password to every user of the machine.
const configVar = "KEYTURN_IM_CONFIG"

// nameVar is the environment variable with the name of a process in traces and metrics.
const nameVar = "KEYTURN_IM_NAME"

func environ(cfg node.Config) ([]string, error) {
	text, err := json.Marshal(cfg)
	return []string{configVar + "=" + string(text)}, err
}

// role returns what this process does as a part of the fleet; nil: it drives the fleet.
func role(args []string, telemetry func(context.Context, string, string) (func(context.Context) error, error)) func(ctx context.Context, ready func(addr string)) error {
	text, ok := os.LookupEnv(configVar)
	if !ok || len(args) == 0 {
		return nil
	}
	return func(ctx context.Context, ready func(addr string)) (err error) {
		var cfg node.Config
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			return err
		}
		if cfg.Collector != "" && telemetry != nil {
			stop, err := telemetry(ctx, os.Getenv(nameVar), cfg.Collector)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stopTelemetry(stop)) }()
		}
		n, err := node.Open(ctx, cfg)
		if err != nil {
			return err
		}
		// After the handlers, which may still hold locks.
		defer func() { err = errors.Join(err, n.Close()) }()
		go n.Report(ctx, os.Getenv(nameVar))
		switch args[0] {
		case "service":
			return service.Serve(ctx, n, args[1], ready)
		case "courier":
			return courier.Serve(ctx, n, args[1], ready)
		case "gateway":
			return gateway.Serve(ctx, n, args[1], args[2:], ready)
		}
		return errors.New("no such role: " + args[0])
	}
}

// stopTelemetry is for a process that got a signal to end, so its timeout is short.
func stopTelemetry(stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return stop(ctx)
}
