package onredis

import (
	"fmt"
	"net/url"
	"reflect"

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
	DialOnce(opts)
	return opts, nil
}

// DialOnce has a client with these options report a refused connection at once: the stores ask again by themselves.
// Versions of go-redis later than the lowest dial five times otherwise, so servers that are down delay each call and
// Close by seconds, and the reason may not be in the error.
func DialOnce(opts any) {
	if retries := reflect.ValueOf(opts).Elem().FieldByName("DialerRetries"); retries.IsValid() {
		retries.SetInt(1)
	}
}
