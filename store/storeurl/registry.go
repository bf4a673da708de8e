package storeurl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Scheme is how the stores of one scheme are opened. Its functions may be called from several
// goroutines at once.
//
// Each of them first reads all of the URL, and refuses what it does not know or cannot use before
// any I/O: the parameters with [URL.Params], and parts that mean nothing to the store, such as a
// path, with an error that matches [ErrInvalidURL].
type Scheme struct {
	// Open makes a store. ctx bounds the opening alone, not the store. Open need not ask a server
	// whether it is there. The store owns all that was made for it, such as a client: its Close
	// closes that, too. Before Open returns an error, it closes what it has made.
	//
	// The store is of the type that the package's New returns, without a wrapper, so that callers
	// find its further methods.
	Open func(ctx context.Context, u *URL) (driver.Store, error)
	// Prepare makes in the backend what a new installation needs before the first Open, such as
	// tables. A repeat does no harm; it may be refused. Nil: nothing is needed.
	Prepare func(ctx context.Context, u *URL) error
	// Script returns what Prepare would send to the backend, for those who run it themselves. It
	// does no I/O. Nil: there is no such form.
	Script func(u *URL) (string, error)
}

var registry = struct {
	sync.RWMutex
	schemes map[string]Scheme
}{schemes: make(map[string]Scheme)}

// Register makes a scheme known to [Open]. The package of a store calls it in an init function. It
// panics if the scheme is registered already, is not lower case, or has no Open.
func Register(scheme string, s Scheme) {
	registry.Lock()
	defer registry.Unlock()
	_, twice := registry.schemes[scheme]
	switch {
	case !schemes.MatchString(scheme):
		panic(fmt.Sprintf("storeurl: Register of %q, which is no scheme", scheme))
	case twice:
		panic(fmt.Sprintf("storeurl: Register of %q for the second time", scheme))
	case s.Open == nil:
		panic(fmt.Sprintf("storeurl: Register of %q without Open", scheme))
	}
	registry.schemes[scheme] = s
}

// Schemes returns the registered schemes in alphabetical order.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.schemes))
}

// packages are where the schemes of this project are registered.
var packages = map[string]string{
	"redis": "redisstore", "rediss": "redisstore", "redis+unix": "redisstore",
	"redis+sentinel": "redisstore", "rediss+sentinel": "redisstore",
	"redis+cluster": "redisstore", "rediss+cluster": "redisstore",
	"redlock": "redlock", "redlocks": "redlock",
	"etcd": "etcdstore", "etcds": "etcdstore", "zk": "zkstore", "zks": "zkstore", "nats": "natsstore", "natss": "natsstore",
	"postgres": "sqlstore", "mysql": "sqlstore", "sqlite": "sqlstore",
	"mem": "memstore",
}

func lookup(name string) (Scheme, error) {
	registry.RLock()
	defer registry.RUnlock()
	if s, ok := registry.schemes[name]; ok {
		return s, nil
	}
	err := &UnknownSchemeError{Scheme: name, Registered: slices.Sorted(maps.Keys(registry.schemes))}
	if p, ok := packages[name]; ok {
		err.Import = "github.com/keyturn/keyturn/store/" + p
	}
	return Scheme{}, err
}

// Open makes the store of a URL. The store's Close closes everything that was made for it; an engine
// on that store does so when it is closed. ctx bounds the opening alone, which takes 10 s at most. A
// server that is away is no error: it is asked again at the first acquisition, or core.Engine.Ping.
//
// The error is an [*Error]. It matches [ErrInvalidURL], or driver.ErrInvalidOption for a value that
// the store refuses. Otherwise it is the store's own, such as driver.ErrUnavailable.
func Open(ctx context.Context, text string) (driver.Store, error) {
	u, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return u.Open(ctx)
}

const openTimeout = 10 * time.Second

// Open does as the function [Open].
func (u *URL) Open(ctx context.Context) (driver.Store, error) {
	s, err := lookup(u.Scheme)
	if err != nil {
		return nil, u.fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	st, err := s.Open(ctx, u)
	if err != nil {
		return nil, u.fail(err)
	}
	return st, nil
}

// Prepare makes in the backend what a new installation needs before the first [Open], such as the
// tables in a database. It does nothing for stores that need nothing. Its errors are those of Open.
func (u *URL) Prepare(ctx context.Context) error {
	s, err := lookup(u.Scheme)
	if err == nil && s.Prepare != nil {
		err = s.Prepare(ctx, u)
	}
	if err != nil {
		return u.fail(err)
	}
	return nil
}

// Script returns what [URL.Prepare] would send to the backend, such as SQL; "" if the store needs
// nothing. If it needs something that has no such form, the error matches [errors.ErrUnsupported].
func (u *URL) Script() (string, error) {
	s, err := lookup(u.Scheme)
	switch {
	case err != nil:
		return "", u.fail(err)
	case s.Script == nil && s.Prepare == nil:
		return "", nil
	case s.Script == nil:
		return "", u.fail(fmt.Errorf("%w: there is no script", errors.ErrUnsupported))
	}
	text, err := s.Script(u)
	if err != nil {
		return "", u.fail(err)
	}
	return text, nil
}

func (u *URL) fail(err error) error { return &Error{URL: u.String(), Err: u.clean(err)} }
