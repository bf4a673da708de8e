package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Schema returns the statements that make the package's tables, unless they exist. The account
// of the service needs SELECT, INSERT, UPDATE and DELETE on them.
//
// Ids are bytes, so that no collation takes two of them for the same. Times are milliseconds since
// 1970, by the database's clock.
func Schema(d Dialect, opts ...Option) ([]string, error) {
	c, err := configure(opts)
	if err := errors.Join(d.validate(), err); err != nil {
		return nil, err
	}
	id, blob, result, tail, index := "BLOB", "BLOB", "BLOB", "", ""
	switch d {
	case Postgres:
		id, blob, result = "bytea", "bytea", "bytea"
		tail = " WITH (fillfactor = 70)" // so that an update finds room on its page, and touches no index
	case MySQL:
		id, blob, result = "VARBINARY(512)", "VARBINARY(255)", "LONGBLOB"
		tail, index = " ENGINE=InnoDB", ", INDEX (at)"
	}
	statements := []string{
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (resource %s NOT NULL PRIMARY KEY, token BIGINT NOT NULL)%s", c.table(d, "fence"), id, tail),
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (id %s NOT NULL PRIMARY KEY, at BIGINT NOT NULL, kept SMALLINT NOT NULL, fingerprint %s, result %s, trace VARCHAR(255)%s)%s",
			c.table(d, "mark"), id, blob, result, index, tail),
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (name %s NOT NULL PRIMARY KEY, at BIGINT NOT NULL%s)%s", c.table(d, "row"), id, index, tail),
	}
	if d != MySQL { // which has no IF NOT EXISTS for indexes
		statements = append(statements, c.markIndex(d))
	}
	return statements, nil
}

// markIndex makes the index that Sweep uses. PostgreSQL puts an index into its table's schema, and
// wants no schema before the index's name. SQLite wants it there, and not before the table's.
func (c config) markIndex(d Dialect) string {
	table := c.prefix + "mark"
	name := table[strings.LastIndexByte(table, '.')+1:]
	if d == SQLite && name != table {
		return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (at)", d.quote(table+"_at"), d.quote(name))
	}
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (at)", d.quote(name+"_at"), c.table(d, "mark"))
}

// sweepRows is how many rows one statement of Sweep deletes, so that it holds few locks.
const sweepRows = 500

// Sweep deletes marks that are older than olderThan, and rows of [Guard.Lock] that nobody has
// locked for as long, and returns how many marks it deleted. Call it now and then, for example
// once an hour. A message that comes again after its mark was deleted has a second effect. So
// olderThan must be longer than the time after which a message can come again.
//
// olderThan must be more than 0, otherwise the error is a *core.OptionError. Tokens are never
// deleted, because a smaller one would pass afterwards. It is safe to call it from several
// processes at a time, and beside everything else.
func Sweep(ctx context.Context, db *sql.DB, d Dialect, olderThan time.Duration, opts ...Option) (int64, error) {
	return SweepThrough(ctx, poolOf(db), d, olderThan, opts...)
}

// SweepThrough is [Sweep] for a pool that is none of database/sql's.
func SweepThrough(ctx context.Context, p Pool, d Dialect, olderThan time.Duration, opts ...Option) (int64, error) {
	c, err := configure(opts)
	old := driver.CheckOption(olderThan > 0, "olderThan", olderThan, "more than 0")
	if err := errors.Join(d.validate(), err, old, driver.CheckOption(p != nil, "Sweep", nil, "a database")); err != nil {
		return 0, err
	}
	ms := olderThan.Milliseconds()
	if olderThan%time.Millisecond > 0 {
		ms++
	}
	marks, err := c.sweep(ctx, p, d, "mark", "id", ms)
	if err != nil {
		return marks, err
	}
	_, err = c.sweep(ctx, p, d, "row", "name", ms+lockNoted.Milliseconds()) // as a duration, the sum might overflow
	return marks, err
}

// sweep deletes the rows of a table that are more than ms milliseconds old.
func (c config) sweep(ctx context.Context, p Pool, d Dialect, table, id string, ms int64) (all int64, err error) {
	name, old := c.table(d, table), "at < "+d.now()+" - ?"
	statement := fmt.Sprintf("DELETE FROM %s WHERE %s IN (SELECT %s FROM %s WHERE %s LIMIT %d)", name, id, id, name, old, sweepRows)
	switch d {
	case Postgres: // a row that a transaction has locked is not old
		statement = fmt.Sprintf("DELETE FROM %s WHERE %s = ANY (ARRAY(SELECT %s FROM %s WHERE %s LIMIT %d FOR UPDATE SKIP LOCKED))", name, id, id, name, old, sweepRows)
	case MySQL: // no LIMIT in a subquery
		statement = fmt.Sprintf("DELETE FROM %s WHERE %s LIMIT %d", name, old, sweepRows)
	}
	for {
		n, err := p.Exec(ctx, d.bind(statement), ms)
		if err != nil {
			return all, fmt.Errorf("keyturn: sweep: %w", explain(err))
		}
		if all += n; n < sweepRows {
			return all, nil
		}
	}
}
