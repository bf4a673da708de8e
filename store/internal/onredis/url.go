package onredis

import (
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/storeurl"
)

// Options has go-redis read what it knows of u and p, for the server at addr: user, password, database,
// and the parameters of its ParseURL, such as pool_size or read_timeout.
func Options(u *storeurl.URL, p *storeurl.Params, addr string, tls bool) (*redis.Options, error) {
	one := url.URL{Scheme: "redis", User: u.User, Host: addr, Path: u.Path, RawQuery: p.Rest().Encode()}
	if tls {
		one.Scheme = "rediss"
	}
	opts, err := redis.ParseURL(one.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storeurl.ErrInvalidURL, err)
	}
	return opts, nil
}
