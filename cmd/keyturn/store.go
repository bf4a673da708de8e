package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"   // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	_ "github.com/keyturn/keyturn/pgx/pgwake"       // messages of PostgreSQL
	_ "github.com/keyturn/keyturn/store/etcdstore"  // etcd
	_ "github.com/keyturn/keyturn/store/natsstore"  // nats
	_ "github.com/keyturn/keyturn/store/redisstore" // redis and its kin
	_ "github.com/keyturn/keyturn/store/redlock"    // redlock
	"github.com/keyturn/keyturn/store/sqlstore"     // postgres, mysql, sqlite
	"github.com/keyturn/keyturn/store/storeurl"
	_ "github.com/keyturn/keyturn/store/zkstore" // zk
)

func init() {
	redis.SetLogger(silent{})
	_ = mysql.SetLogger(silent{}) // it fails without a logger only
}

// silent keeps go-redis and go-sql-driver from writing to standard error: what they say comes back as errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func (silent) Print(...any) {}

// configure fills what the command line leaves open from the environment, then from the file. An empty value
// is a value everywhere: --prefix "" is a prefix.
func (a *app) configure(cmd *cobra.Command) error {
	given := func(name string) bool { f := cmd.Flag(name); return f != nil && f.Changed }
	if !given("config") {
		a.config = os.Getenv("KEYTURN_CONFIG")
	}
	inFile, err := readConfig(a.config)
	if err != nil {
		return exit(statusConfig, "%v", err)
	}
	settings := map[string]*string{"store": &a.storeURL, "prefix": &a.prefix}
	for name := range inFile {
		if settings[name] == nil {
			return exit(statusConfig, "%s: there is no setting %q; want store or prefix", a.config, name)
		}
	}
	set := func(name string) bool {
		if given(name) {
			return true
		}
		text, ok := os.LookupEnv("KEYTURN_" + strings.ToUpper(name))
		if !ok {
			text, ok = inFile[name]
		}
		*settings[name] = text
		return ok
	}
	set("store")
	a.prefixed = set("prefix")
	return nil
}

// readConfig reads lines of the form "name = value". Lines that begin with # are comments.
func readConfig(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values := make(map[string]string)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%s: line %d is not of the form name = value", file, n)
		}
		values[name] = strings.TrimSpace(value)
	}
	return values, lines.Err()
}

// url returns the URL of the store. There is no default server: a lock that was taken on the wrong
// one is no lock.
func (a *app) url() (*storeurl.URL, error) {
	switch {
	case a.misconfigured != nil:
		return nil, a.misconfigured
	case a.storeURL == "":
		return nil, exit(statusConfig, "no store: give --store URL, KEYTURN_STORE or --config FILE, as in --store redis://localhost (schemes: %s)",
			strings.Join(storeurl.Schemes(), ", "))
	}
	u, err := storeurl.Parse(a.storeURL)
	if err != nil {
		return nil, err
	}
	if a.prefixed {
		u = u.WithParam("prefix", a.prefix)
	}
	return u, nil
}

// openStore opens the store. Opening may ask the server.
func (a *app) openStore(ctx context.Context) (driver.Store, error) {
	u, err := a.url()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	st, err := u.Open(ctx)
	var unknown *storeurl.UnknownSchemeError
	switch {
	case errors.As(err, &unknown): // what a program imports is of no interest here
		return nil, exit(statusConfig, "the URL of the store begins with %s:, want a scheme, as in redis://localhost: one of %s",
			unknown.Scheme, strings.Join(unknown.Registered, ", "))
	case statusOf(err) == statusConfig && errors.Is(err, sqlstore.ErrSchema):
		return nil, exit(statusConfig, "%v (keyturn init makes what is missing)", err)
	case err != nil:
		return nil, err
	}
	return st, nil
}

// withEngine calls f with an engine on the store, and closes both.
func (a *app) withEngine(ctx context.Context, f func(*core.Engine) error, opts ...core.EngineOption) (err error) {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	eng, err := core.New(st, append([]core.EngineOption{core.WithReleaseTimeout(a.timeout)}, opts...)...)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	defer func() {
		// Nothing is held any more, so this takes no time unless the store is silent.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if end := eng.Close(ctx); err == nil && end != nil {
			a.say("%v", end)
		}
	}()
	return f(eng)
}
