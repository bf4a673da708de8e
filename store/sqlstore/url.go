package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/storeurl"
)

// database is how a URL of one kind of database is opened.
type database struct {
	dialect Dialect
	drivers []string // their names in database/sql; the first that is registered is used
	example string   // a package that registers one
	// source makes the driver's data source name. prepare: the tables will be made.
	source func(u *storeurl.URL, p *storeurl.Params, prepare bool) (string, error)
}

func init() {
	for scheme, d := range map[string]database{
		"postgres": {Postgres, []string{"pgx", "pgx/v5", "postgres"}, "github.com/jackc/pgx/v5/stdlib", postgresSource},
		"mysql":    {MySQL, []string{"mysql"}, "github.com/go-sql-driver/mysql", mysqlSource},
		"sqlite":   {SQLite, []string{"sqlite", "sqlite3"}, "modernc.org/sqlite", sqliteSource},
	} {
		storeurl.Register(scheme, storeurl.Scheme{Open: d.open, Prepare: d.prepare, Script: d.script})
	}
}

// open makes a store that closes its pool.
func (d database) open(ctx context.Context, u *storeurl.URL) (driver.Store, error) {
	db, opts, err := d.pool(u, false)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, db, d.dialect, append(opts, ownsPool())...)
	if err != nil {
		_ = db.Close() // a store closes it after its last statement; after an invalid option there is none
		return nil, err
	}
	return s, nil
}

// prepare makes the tables.
func (d database) prepare(ctx context.Context, u *storeurl.URL) error {
	db, opts, err := d.pool(u, true)
	if err != nil {
		return err
	}
	return errors.Join(Migrate(ctx, db, d.dialect, opts...), db.Close())
}

// script returns the statements that prepare would send. It needs no driver.
func (d database) script(u *storeurl.URL) (string, error) {
	opts, _, err := d.read(u, true)
	if err != nil {
		return "", err
	}
	return Schema(d.dialect, opts...)
}

// ownsPool has Close close the pool, too.
func ownsPool() Option {
	return func(c *config) error {
		c.ownsPool = true
		return nil
	}
}

// read reads the whole URL, without any I/O.
func (d database) read(u *storeurl.URL, prepare bool) (opts []Option, source string, err error) {
	p := u.Params()
	if prefix, ok := p.String("prefix"); ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if wait, ok := p.Duration("waiter_lease"); ok {
		opts = append(opts, WithWaiterLease(wait))
	}
	if poll, ok := p.Duration("poll"); ok {
		opts = append(opts, WithPoll(poll))
	}
	if n, ok := p.Int("max_conns"); ok {
		opts = append(opts, WithMaxConns(n))
	}
	source, err = d.source(u, p, prepare)
	return opts, source, errors.Join(err, p.Err())
}

// pool opens a pool, which connects when it is first used.
func (d database) pool(u *storeurl.URL, prepare bool) (*sql.DB, []Option, error) {
	opts, source, err := d.read(u, prepare)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := configure(d.dialect, opts)
	if err != nil {
		return nil, nil, err
	}
	name, err := d.driver(sql.Drivers())
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open(name, source)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", storeurl.ErrInvalidURL, err)
	}
	db.SetMaxIdleConns(cfg.conns + 1) // as many as the store uses at once
	return db, opts, nil
}

// driver chooses among the registered drivers. They are not imported here: which one a program
// links is its own choice.
func (d database) driver(registered []string) (string, error) {
	for _, name := range d.drivers {
		if slices.Contains(registered, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%w: the program imports no driver of database/sql for %s that is called %s, such as %s",
		storeurl.ErrInvalidURL, d.dialect, strings.Join(d.drivers, " or "), d.example)
}

// postgresSource makes the form of key = 'value', which takes several hosts, unlike a URL.
func postgresSource(u *storeurl.URL, p *storeurl.Params, _ bool) (string, error) {
	name := strings.TrimPrefix(u.Path, "/")
	if len(u.Hosts) == 0 || name == "" {
		return "", wrong("a host and a database, as in postgres://user@localhost/db")
	}
	var hosts, ports []string
	for _, addr := range u.Addrs("5432") {
		host, port, _ := net.SplitHostPort(addr) // Addrs makes nothing else
		hosts, ports = append(hosts, host), append(ports, port)
	}
	words := []string{
		"host=" + quoted(strings.Join(hosts, ",")), "port=" + quoted(strings.Join(ports, ",")), "dbname=" + quoted(name),
	}
	add := func(name, value string, ok bool) {
		if ok {
			words = append(words, name+"="+quoted(value))
		}
	}
	add("user", u.Username(), u.Username() != "")
	add("password", u.Password(), u.Password() != "")
	mode, ok := p.OneOf("sslmode", "disable", "allow", "prefer", "require", "verify-ca", "verify-full")
	add("sslmode", mode, ok)
	session, ok := p.OneOf("target_session_attrs", "any", "read-write", "primary")
	add("target_session_attrs", session, ok)
	seconds, ok := p.Int("connect_timeout")
	add("connect_timeout", strconv.Itoa(seconds), ok)
	for _, other := range []string{"sslrootcert", "sslcert", "sslkey", "application_name", "search_path", "default_query_exec_mode"} {
		value, ok := p.String(other)
		add(other, value, ok)
	}
	return strings.Join(words, " "), nil
}

// quoted writes a value as the driver reads it.
func quoted(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// mysqlSource makes the form of go-sql-driver, which reads the password up to the last @ before the
// last /.
func mysqlSource(u *storeurl.URL, p *storeurl.Params, _ bool) (string, error) {
	name := strings.TrimPrefix(u.Path, "/")
	if len(u.Hosts) != 1 || name == "" {
		return "", wrong("one host and a database, as in mysql://user@localhost/db")
	}
	if strings.Contains(u.Username(), ":") {
		return "", wrong("a user without a colon")
	}
	params := url.Values{}
	if mode, ok := p.OneOf("tls", "true", "false", "skip-verify", "preferred"); ok {
		params.Set("tls", mode)
	}
	for _, name := range []string{"timeout", "readTimeout", "writeTimeout"} {
		if wait, ok := p.Duration(name); ok {
			params.Set(name, wait.String())
		}
	}
	account := u.Username()
	if u.Password() != "" {
		account += ":" + u.Password()
	}
	return account + "@tcp(" + u.Addrs("3306")[0] + ")/" + url.PathEscape(name) + "?" + params.Encode(), nil
}

// sqliteSource makes the URI of a file, with the settings that docs/operations-sql.md asks for. Each
// driver knows one of the two spellings, and ignores the other. Only prepare makes a new file, so a
// wrong name is no empty database.
func sqliteSource(u *storeurl.URL, p *storeurl.Params, prepare bool) (string, error) {
	if len(u.Hosts) > 0 || u.User != nil || u.Path == "" || strings.HasPrefix(u.Path, ":") {
		return "", wrong("a file, as in sqlite:locks.db or sqlite:/var/lib/locks.db")
	}
	mode := "rw"
	if prepare {
		mode = "rwc"
	}
	synchronous, ok := p.OneOf("synchronous", "off", "normal", "full", "extra")
	if !ok {
		synchronous = "full"
	}
	file := (&url.URL{Path: u.Path}).EscapedPath()
	return "file:" + file + "?mode=" + mode + "&_txlock=immediate" +
		"&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(" + synchronous + ")" +
		"&_busy_timeout=5000&_journal_mode=wal&_synchronous=" + synchronous, nil
}

func wrong(want string) error { return fmt.Errorf("%w: want %s", storeurl.ErrInvalidURL, want) }
