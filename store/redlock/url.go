package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/storeurl"
)

func init() {
	scheme := storeurl.Scheme{
		Open: func(_ context.Context, u *storeurl.URL) (driver.Store, error) { return openURL(u) },
		Prepare: func(ctx context.Context, u *storeurl.URL) (err error) {
			s, err := openURL(u)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return s.Init(ctx)
		},
	}
	storeurl.Register("redlock", scheme)
	storeurl.Register("redlocks", scheme)
}

// openURL makes a store that closes its clients.
func openURL(u *storeurl.URL) (*Store, error) {
	p := u.Params()
	var opts []Option
	if prefix, ok := p.String("prefix"); ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if q, ok := p.Int("quorum"); ok {
		opts = append(opts, WithQuorum(q))
	}
	if d, ok := p.Duration("max_ttl"); ok {
		opts = append(opts, WithMaxTTL(d))
	}
	if d, ok := p.Duration("node_timeout"); ok {
		opts = append(opts, WithNodeTimeout(d))
	}
	if yes, _ := p.Bool("persistent"); yes {
		opts = append(opts, WithPersistent())
	}
	nodes, err := parseNodes(u, p)
	if err := errors.Join(err, p.Err()); err != nil {
		return nil, err
	}
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = redis.NewClient(node)
	}
	s, err := New(clients, opts...)
	if err != nil {
		closeAll(clients)
		return nil, err
	}
	s.owned = clients
	return s, nil
}

// parseNodes reads the options for each node.
func parseNodes(u *storeurl.URL, p *storeurl.Params) ([]*redis.Options, error) {
	var nodes []*redis.Options
	for _, addr := range u.Addrs("6379") {
		opts, err := onredis.Options(u, p, addr, u.Scheme == "redlocks")
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, opts)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: want the nodes, as in redlock://a,b,c", storeurl.ErrInvalidURL)
	}
	return nodes, nil
}

func closeAll(clients []*redis.Client) {
	for _, c := range clients {
		_ = c.Close() // the only error is that it is closed
	}
}
