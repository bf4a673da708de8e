package redisstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/storeurl"
)

// The default ports.
const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// connector makes the client for a URL, and notes in the configuration how it finds its server.
type connector func(*storeurl.URL, *storeurl.Params, *config) (redis.UniversalClient, error)

func init() {
	for scheme, client := range map[string]connector{
		"redis": oneServer, "rediss": oneServer, "redis+unix": socket,
		"redis+sentinel": sentinels, "rediss+sentinel": sentinels,
		"redis+cluster": cluster, "rediss+cluster": cluster,
	} {
		storeurl.Register(scheme, storeurl.Scheme{Open: func(_ context.Context, u *storeurl.URL) (driver.Store, error) {
			return openURL(u, client)
		}})
	}
}

// openURL makes a store that closes its client.
func openURL(u *storeurl.URL, connect connector) (driver.Store, error) {
	p := u.Params()
	var opts []Option
	if prefix, ok := p.String("prefix"); ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if d, ok := p.Duration("waiter_lease"); ok {
		opts = append(opts, WithWaiterLease(d))
	}
	n, replicas := p.Int("replicas")
	timeout, bounded := p.Duration("replica_timeout")
	if replicas || bounded {
		opts = append(opts, WithReplicas(n, timeout))
	}
	var own config
	client, err := connect(u, p, &own)
	if err := errors.Join(err, p.Err()); err != nil {
		if client != nil {
			_ = client.Close() // it has no connection yet
		}
		return nil, err
	}
	s, err := New(client, append(opts, func(c *config) error {
		c.ownsClient, c.failover = true, own.failover
		return nil
	})...)
	if err != nil {
		_ = client.Close() // as above
		return nil, err
	}
	return s, nil
}

func oneServer(u *storeurl.URL, p *storeurl.Params, _ *config) (redis.UniversalClient, error) {
	if len(u.Hosts) != 1 {
		return nil, bad("one host, as in redis://localhost:6379/0")
	}
	opts, err := parseOptions(u, p, u.Addrs(redisPort)[0])
	if err != nil {
		return nil, err
	}
	return redis.NewClient(opts), nil
}

// socket connects to redis+unix:/PATH?db=N.
func socket(u *storeurl.URL, p *storeurl.Params, _ *config) (redis.UniversalClient, error) {
	if len(u.Hosts) != 0 || u.Path == "" {
		return nil, bad("a path and no host, as in redis+unix:/run/redis.sock")
	}
	at := *u
	at.Path = ""
	opts, err := parseOptions(&at, p, "localhost:"+redisPort)
	if err != nil {
		return nil, err
	}
	opts.Network, opts.Addr = "unix", u.Path
	return redis.NewClient(opts), nil
}

// sentinels connects to the master that the Sentinels name.
func sentinels(u *storeurl.URL, p *storeurl.Params, c *config) (redis.UniversalClient, error) {
	master, _ := p.String("master_name")
	username, _ := p.String("sentinel_username")
	password, _ := p.String("sentinel_password")
	opts, err := parseSeveral(u, p, sentinelPort)
	switch {
	case err != nil:
		return nil, err
	case master == "":
		return nil, &storeurl.ParamError{Name: "master_name", Want: "the name that the Sentinels have for the master"}
	}
	opts.MasterName, opts.SentinelUsername, opts.SentinelPassword = master, username, password
	c.failover = opts.Failover()
	return redis.NewFailoverClient(c.failover), nil
}

// cluster connects to a Cluster, of which the hosts are some nodes.
func cluster(u *storeurl.URL, p *storeurl.Params, _ *config) (redis.UniversalClient, error) {
	opts, err := parseSeveral(u, p, redisPort)
	switch {
	case err != nil:
		return nil, err
	case opts.DB != 0:
		return nil, bad("no database, because a Cluster has one only")
	}
	return redis.NewClusterClient(opts.Cluster()), nil
}

// parseOptions reads the options for the server at addr.
func parseOptions(u *storeurl.URL, p *storeurl.Params, addr string) (*redis.Options, error) {
	return onredis.Options(u, p, addr, strings.HasPrefix(u.Scheme, "rediss"))
}

// parseSeveral is parseOptions for a client of several servers.
func parseSeveral(u *storeurl.URL, p *storeurl.Params, port string) (*redis.UniversalOptions, error) {
	if len(u.Hosts) == 0 {
		return nil, bad("at least one host")
	}
	addrs := u.Addrs(port)
	o, err := parseOptions(u, p, addrs[0])
	if err != nil {
		return nil, err
	}
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each server's certificate is for its own name, not for the first one's
	}
	several := new(redis.UniversalOptions)
	from, to := reflect.ValueOf(o).Elem(), reflect.ValueOf(several).Elem()
	for i := range to.NumField() { // a list of them would miss what later versions of go-redis have
		f := to.Type().Field(i)
		if same := from.FieldByName(f.Name); f.IsExported() && same.IsValid() && same.Type() == f.Type {
			to.Field(i).Set(same)
		}
	}
	several.Addrs = addrs
	return several, nil
}

func bad(want string) error { return fmt.Errorf("%w: want %s", storeurl.ErrInvalidURL, want) }
