package zkstore

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/storeurl"
)

// The schemes. With the second one, connections are made with TLS.
const (
	plainScheme = "zk"
	tlsScheme   = "zks"
	defaultPort = "2181"
)

func init() {
	scheme := storeurl.Scheme{Open: openURL}
	storeurl.Register(plainScheme, scheme)
	storeurl.Register(tlsScheme, scheme)
}

// openURL makes a store. A user and password are those of the scheme digest.
func openURL(ctx context.Context, u *storeurl.URL) (driver.Store, error) {
	p := u.Params()
	var opts []Option
	if u.Path != "" && u.Path != "/" {
		opts = append(opts, WithRoot(u.Path))
	}
	if u.User != nil {
		if u.Username() == "" || u.Password() == "" {
			return nil, fmt.Errorf("%w: want a user and a password, as in zk://user:password@host", storeurl.ErrInvalidURL)
		}
		opts = append(opts, WithAuth("digest", []byte(u.Username()+":"+u.Password())))
	}
	if d, ok := p.Duration("session"); ok {
		opts = append(opts, WithSession(d))
	}
	if n, ok := p.Int("buffer"); ok {
		opts = append(opts, WithBuffer(n))
	}
	if u.Scheme == tlsScheme {
		opts = append(opts, WithTLS(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if len(u.Hosts) == 0 {
		return nil, fmt.Errorf("%w: want the servers, as in zk://a,b,c", storeurl.ErrInvalidURL)
	}
	s, err := New(ctx, u.Addrs(defaultPort), opts...)
	if err != nil {
		return nil, err // not s, which would be a driver.Store that is not nil
	}
	return s, nil
}
