package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
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
	at, err := d.read(u, false)
	if err != nil {
		return nil, err
	}
	if d.dialect == SQLite && isUnmade(u.Path) {
		return nil, fmt.Errorf("%w: there is no file %s", ErrSchema, u.Path)
	}
	db, err := d.pool(at)
	if err != nil {
		return nil, err
	}
	opts := append(at.opts, func(c *config) error { c.ownsPool = true; return nil })
	if at.wakes {
		waker, err := linked.Load().Listen(at.source)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", storeurl.ErrInvalidURL, err), db.Close())
		}
		opts = append(opts, WithWaker(waker))
	}
	s, err := New(ctx, db, d.dialect, opts...) // the options are valid, so it closes what is its own
	if err != nil {
		return nil, err
	}
	if d.dialect == Postgres && linked.Load() == nil {
		s.cfg.log.Info("sqlstore: no messages: waiters look for their turn. Import "+pgwake+" to have messages wake them", "every", s.cfg.poll)
	}
	return s, nil
}

// isUnmade reports whether prepare has not made the file yet. A directory it does not make.
func isUnmade(file string) bool {
	_, none := os.Stat(file)
	_, err := os.Stat(filepath.Dir(file))
	return errors.Is(none, fs.ErrNotExist) && err == nil
}

// prepare makes the tables.
func (d database) prepare(ctx context.Context, u *storeurl.URL) error {
	at, err := d.read(u, true)
	if err != nil {
		return err
	}
	db, err := d.pool(at)
	if err != nil {
		return err
	}
	return errors.Join(Migrate(ctx, db, d.dialect, at.opts...), db.Close())
}

// script returns the statements that prepare would send. It needs no driver.
func (d database) script(u *storeurl.URL) (string, error) {
	at, err := d.read(u, true)
	if err != nil {
		return "", err
	}
	return Schema(d.dialect, at.opts...)
}

// target is what a URL says.
type target struct {
	opts   []Option
	conns  int
	source string // the data source name
	wakes  bool   // messages wake the store's waiters
}

// read reads the whole URL, without any I/O.
func (d database) read(u *storeurl.URL, prepare bool) (at target, err error) {
	p := u.Params()
	if prefix, ok := p.String("prefix"); ok {
		at.opts = append(at.opts, WithPrefix(prefix))
	}
	if wait, ok := p.Duration("waiter_lease"); ok {
		at.opts = append(at.opts, WithWaiterLease(wait))
	}
	if poll, ok := p.Duration("poll"); ok {
		at.opts = append(at.opts, WithPoll(poll))
	}
	if n, ok := p.Int("max_conns"); ok {
		at.opts = append(at.opts, WithMaxConns(n))
	}
	if d.dialect == Postgres {
		at.wakes, err = wakes(p)
	}
	source, wrong := d.source(u, p, prepare)
	if err := errors.Join(err, wrong, p.Err()); err != nil {
		return target{}, err
	}
	cfg, err := configure(d.dialect, at.opts)
	at.source, at.conns = source, cfg.conns
	return at, err
}

// pool opens a pool, which connects when it is first used.
func (d database) pool(at target) (*sql.DB, error) {
	connect := func(source string) (*sql.DB, error) {
		name, err := d.driver(sql.Drivers())
		if err != nil {
			return nil, err
		}
		return sql.Open(name, source)
	}
	if c := linked.Load(); c != nil && d.dialect == Postgres {
		connect = c.Open
	}
	db, err := connect(at.source)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storeurl.ErrInvalidURL, err)
	}
	db.SetMaxIdleConns(at.conns + 1) // as many as the store uses at once
	return db, nil
}

// driver chooses among the registered drivers. They are not imported here: which one a program
// links is its own choice.
func (d database) driver(registered []string) (string, error) {
	for _, name := range d.drivers {
		if slices.Contains(registered, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("the program imports no driver of database/sql for %s that is called %s, such as %s",
		d.dialect, strings.Join(d.drivers, " or "), d.example)
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
