// All is examples/im with all that it can do: every store, databases, OpenTelemetry's SDK and the
// console. See there for its flags.
package main

import (
	"context"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql", for mysql://
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for postgres://
	_ "modernc.org/sqlite"             // the driver "sqlite", for sqlite:

	"github.com/keyturn/keyturn/examples/im/observe"
	"github.com/keyturn/keyturn/examples/im/run"
	_ "github.com/keyturn/keyturn/store/etcdstore" // etcd://
	_ "github.com/keyturn/keyturn/store/sqlstore"  // postgres://, mysql://, sqlite:
	_ "github.com/keyturn/keyturn/store/zkstore"   // zk://
)

func main() { run.Main(parts) }

var parts = run.Parts{Telemetry: telemetry, Watch: watch, Console: look}

func telemetry(ctx context.Context, name, collector string) (stop func(context.Context) error, err error) {
	t, err := observe.Start(ctx, name, collector)
	return t.Stop, err
}
