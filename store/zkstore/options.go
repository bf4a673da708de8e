package zkstore

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
)

// Option changes a default of [New]. Of two options about one matter the last counts.
type Option func(*config) error

type config struct {
	servers []string
	root    string
	session time.Duration
	scheme  string
	secret  []byte
	acl     []zk.ACL
	tls     *tls.Config
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	buffer  int
	log     *slog.Logger
}

// The defaults.
const (
	DefaultRoot    = "/keyturn"
	DefaultSession = 10 * time.Second
	DefaultBuffer  = 1<<20 - 1
)

const (
	minSession = 200 * time.Millisecond
	maxSession = 10 * time.Minute
	minBuffer  = 64 << 10
	maxRoot    = 256
)

// configure applies the options.
func configure(servers []string, opts []Option) (config, error) {
	cfg := config{
		servers: zk.FormatServers(servers), root: DefaultRoot, session: DefaultSession, buffer: DefaultBuffer, log: slog.Default(),
		dial: new(net.Dialer).DialContext,
	}
	errs := driver.Configure(&cfg, "New", opts)
	if len(servers) == 0 {
		errs = append(errs, &driver.OptionError{Option: "New", Value: servers, Want: "at least one server"})
	}
	for _, s := range cfg.servers {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" {
			errs = append(errs, &driver.OptionError{Option: "New", Value: s, Want: "servers as host or host:port"})
		}
	}
	if cfg.acl == nil {
		cfg.acl = zk.WorldACL(zk.PermAll)
		if cfg.scheme != "" {
			cfg.acl = zk.AuthACL(zk.PermAll)
		}
	}
	return cfg, errors.Join(errs...)
}

// claimTime is how long a lock is kept for a waiter that got it, until that waiter asks.
func (c *config) claimTime() time.Duration { return c.session / 2 }

// WithRoot sets the node below which the store keeps everything: an absolute path, at most 256
// bytes. It is made if it is missing. Services that should not share locks have different roots.
// Default [DefaultRoot].
func WithRoot(path string) Option {
	return func(c *config) error {
		bad := len(path) < 2 || len(path) > maxRoot || path[0] != '/' || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/")
		for _, part := range strings.Split(path, "/")[1:] {
			bad = bad || part == "" || part == "." || part == ".." || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r > '~' })
		}
		c.root = path
		return driver.CheckOption(!bad, "WithRoot", path, "an absolute path in ASCII without an empty part, outside of the servers' own /zookeeper")
	}
}

// WithSession sets the timeout of the session, by which the servers find out that a process has
// died. It ends no lease: a lease has its own TTL. The places of a dead process in queues end after
// this time. A lock that has come to a waiter is kept for it for half this time, until the waiter has
// noticed. The servers allow 2 to 20 of their ticks (tickTime); the store logs a warning if that is
// less. 200 ms to 10 min. Default [DefaultSession].
func WithSession(d time.Duration) Option {
	return func(c *config) error {
		c.session = d
		return driver.CheckOption(d >= minSession && d <= maxSession, "WithSession", d, "200ms to 10m")
	}
}

// WithAuth authenticates each session, for example with "digest" and "user:password". The nodes
// that the store makes are then for this user alone, unless [WithACL] says otherwise. Default: no
// authentication.
func WithAuth(scheme string, secret []byte) Option {
	return func(c *config) error {
		c.scheme, c.secret = scheme, append([]byte(nil), secret...)
		return driver.CheckOption(scheme != "" && len(secret) != 0, "WithAuth", scheme, "a scheme and a secret")
	}
}

// WithACL sets who may use the nodes that the store makes. Default: with [WithAuth] this user,
// otherwise everybody.
func WithACL(acl []zk.ACL) Option {
	return func(c *config) error {
		c.acl = append([]zk.ACL(nil), acl...)
		return driver.CheckOption(len(acl) != 0, "WithACL", acl, "at least one entry")
	}
}

// WithTLS makes connections with TLS (the servers' secureClientPort). Default: without.
func WithTLS(t *tls.Config) Option {
	return func(c *config) error {
		c.tls = t
		return driver.CheckOption(t != nil, "WithTLS", nil, "a configuration")
	}
}

// WithDialer sets how connections are made, for servers behind a proxy or a tunnel. With [WithTLS] the
// handshake follows. dial must return when its context ends. Default: a [net.Dialer].
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(c *config) error {
		c.dial = dial
		return driver.CheckOption(dial != nil, "WithDialer", nil, "a function")
	}
}

// WithBuffer tells the store the servers' jute.maxbuffer, in bytes: a server closes the connection of
// a client that sends more at once. The store keeps records without results that are too large for
// it, and refuses sets of too many claims. 64 KiB or more. Default [DefaultBuffer], which is the
// servers' own.
func WithBuffer(bytes int) Option {
	return func(c *config) error {
		c.buffer = bytes
		return driver.CheckOption(bytes >= minBuffer && bytes <= DefaultBuffer, "WithBuffer", bytes, "65536 to 1048575")
	}
}

// WithLogger sets where the store logs warnings about the servers' settings. Default
// slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		c.log = l
		return driver.CheckOption(l != nil, "WithLogger", nil, "a logger")
	}
}
