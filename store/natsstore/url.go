package natsstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/storeurl"
)

// The schemes. With the second one, connections are made with TLS.
const (
	plainScheme = "nats"
	tlsScheme   = "natss"
	defaultPort = "4222"
)

// pingInterval is how often a connection is looked at: after two pings without an answer it is given up. The
// client's own two minutes are longer than most leases last.
const pingInterval = 2 * time.Second

func init() {
	scheme := storeurl.Scheme{Open: func(_ context.Context, u *storeurl.URL) (driver.Store, error) { return openURL(u) }}
	storeurl.Register(plainScheme, scheme)
	storeurl.Register(tlsScheme, scheme)
}

// openURL makes a store with a connection of its own, which goes on trying to connect.
//
//	nats://USER:PASSWORD@HOST:PORT,HOST/BUCKET?replicas=3&waiter_lease=10s&credentials=FILE
func openURL(u *storeurl.URL) (driver.Store, error) {
	p := u.Params()
	conn := []nats.Option{
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.PingInterval(pingInterval), nats.Name("keyturn"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // otherwise the client prints what requests say
	}
	var opts []Option
	if bucket := strings.Trim(u.Path, "/"); bucket != "" {
		opts = append(opts, WithBucket(bucket))
	}
	if n, ok := p.Int("replicas"); ok {
		opts = append(opts, WithReplicas(n))
	}
	if d, ok := p.Duration("waiter_lease"); ok {
		opts = append(opts, WithWaiterLease(d))
	}
	if file, ok := p.String("credentials"); ok {
		conn = append(conn, nats.UserCredentials(file))
	}
	switch {
	case u.User == nil:
	case u.Password() == "":
		conn = append(conn, nats.Token(u.Username()))
	default:
		conn = append(conn, nats.UserInfo(u.Username(), u.Password()))
	}
	if u.Scheme == tlsScheme {
		conn = append(conn, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if len(u.Hosts) == 0 {
		return nil, fmt.Errorf("%w: want the servers, as in nats://a,b,c", storeurl.ErrInvalidURL)
	}
	nc, err := nats.Connect("nats://"+strings.Join(u.Addrs(defaultPort), ",nats://"), conn...)
	if err != nil {
		return nil, err
	}
	s, err := New(nc, opts...)
	if err != nil {
		nc.Close()
		return nil, err // not s, which would be a driver.Store that is not nil
	}
	s.owned = true
	return s, nil
}
