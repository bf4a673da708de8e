package run

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keyturn/keyturn/examples/im/courier"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/node"
	"github.com/keyturn/keyturn/examples/im/report"
)

// playKilled delivers messages into a database while workers are killed, without keyturn and with
// it.
func playKilled(ctx context.Context, redisURL, storeURL, database string) (*report.Killed, error) {
	result := &report.Killed{Database: "SQLite"}
	switch {
	case database == "sqlite":
		dir, err := os.MkdirTemp("", "im")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		database = filepath.Join(dir, "im.db")
	case strings.Contains(database, "://"):
		result.Database = "PostgreSQL" // not the URL, which may have a password
	}
	for _, half := range []struct {
		guarded bool
		figures *courier.Figures
	}{{false, &result.Unguarded}, {guarded, &result.Guarded}} {
		var err error
		cfg := node.Config{RedisURL: redisURL, Run: "im-" + rand.Text()[:10], Guarded: half.guarded, Database: database}
		if half.guarded {
			cfg.StoreURL = storeURL
		}
		if *half.figures, err = playCouriers(ctx, cfg); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func playCouriers(ctx context.Context, cfg node.Config) (sum courier.Figures, err error) {
	onlooker := cfg
	onlooker.Guarded = false
	here, err := node.Open(ctx, onlooker)
	if err != nil {
		return sum, err
	}
	defer here.Close()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if end := here.Clean(ctx); err == nil {
			err = end
		}
	}()
	env, err := environ(cfg)
	if err != nil {
		return sum, err
	}
	return courier.Play(ctx, here, func(ctx context.Context, name string) (kill, stop func() error, err error) {
		f := fleet.New(func(error) {}) // each worker is a fleet of its own, which may end
		_, pid, err := f.Start(ctx, name, append(env, nameVar+"="+name), "courier", name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		return func() error { return f.Kill(pid) }, f.Stop, nil
	})
}
