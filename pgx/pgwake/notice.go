package pgwake

import (
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// alone is what a connection remembers of a warning.
const alone = "keyturn: a commit did not wait for the replica"

// syncRep is the function of PostgreSQL that warns when somebody cancels a wait for a replica. Its messages
// are in the server's language.
const syncRep = "SyncRepWaitForLSN"

// OnNotice is for the field of that name of a [pgx.ConnConfig]. With it, stores over the pool refuse a commit
// that does not wait for its replica because somebody has cancelled it:
//
//	config, err := pgx.ParseConfig(dsn)
//	...
//	config.OnNotice = pgwake.OnNotice
//	db := stdlib.OpenDB(*config)
//
// A store that is opened by its URL has it already.
func OnNotice(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == syncRep {
		conn.CustomData()[alone] = true
	}
}

func open(dsn string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.OnNotice = OnNotice
	return stdlib.OpenDB(*config), nil
}

// warned reports whether OnNotice has noted something on a connection of the driver since the last call.
func warned(conn any) bool {
	c, ok := conn.(*stdlib.Conn)
	if !ok {
		return false
	}
	data := c.Conn().PgConn().CustomData()
	_, yes := data[alone]
	delete(data, alone)
	return yes
}

// sees reports whether OnNotice is told of warnings: it is sent one.
func sees(conn any) bool {
	c, ok := conn.(*stdlib.Conn)
	if !ok {
		return false
	}
	if hear := c.Conn().Config().OnNotice; hear != nil {
		hear(c.Conn().PgConn(), &pgconn.Notice{Severity: "WARNING", Code: "01000", Message: "keyturn tries whether warnings are noticed", Routine: syncRep})
	}
	return warned(conn)
}
