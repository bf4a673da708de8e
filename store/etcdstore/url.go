package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/storeurl"
)

const etcdPort = "2379"

func init() {
	storeurl.Register("etcd", storeurl.Scheme{Open: openURL})
	storeurl.Register("etcds", storeurl.Scheme{Open: openURL})
}

// openURL makes a store that closes its client.
func openURL(ctx context.Context, u *storeurl.URL) (driver.Store, error) {
	p := u.Params()
	opts := []Option{func(c *config) error { c.ownsClient = true; return nil }}
	if prefix, ok := p.String("prefix"); ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if d, ok := p.Duration("waiter_lease"); ok {
		opts = append(opts, WithWaiterLease(d))
	}
	cfg := clientConfig()
	if d, ok := p.Duration("keep_alive"); ok {
		cfg.DialKeepAliveTime = d
	}
	err := p.Err()
	switch {
	case len(u.Hosts) == 0:
		err = errors.Join(err, fmt.Errorf("%w: want at least one host", storeurl.ErrInvalidURL))
	case u.Path != "":
		err = errors.Join(err, fmt.Errorf("%w: want no path; the parameter prefix sets the name space", storeurl.ErrInvalidURL))
	}
	if _, bad := configure(opts); bad != nil {
		err = errors.Join(err, bad)
	}
	if err != nil {
		return nil, err
	}
	cfg.Endpoints = u.Addrs(etcdPort)
	if u.Scheme == "etcds" {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if u.User != nil {
		cfg.Username = u.User.Username()
		cfg.Password, _ = u.User.Password()
	}
	cfg.Context = context.WithoutCancel(ctx)
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, failure("open", "", err)
	}
	s, err := New(ctx, client, opts...)
	if err != nil {
		_ = client.Close() // nothing is under way
		return nil, err
	}
	return s, nil
}

// clientConfig is for a client that finds out about a silent connection, and dials a server that is
// back soon. By default, the client of etcd does neither. It logs nothing: its callers get errors, and
// its own lines would stand in the standard error of every command that meets a silent server.
func clientConfig() clientv3.Config {
	dial := backoff.DefaultConfig
	dial.BaseDelay, dial.MaxDelay = 100*time.Millisecond, time.Second
	return clientv3.Config{
		Logger:      zap.NewNop(),
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: dial, MinConnectTimeout: 3 * time.Second})},
	}
}
