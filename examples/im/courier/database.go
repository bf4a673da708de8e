package courier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/fence"
)

// database has the inboxes, and the tables of package fence.
type database struct {
	*sql.DB
	dialect fence.Dialect
	prefix  string // of the tables of this run
}

// openDatabase opens the PostgreSQL of a URL, or the SQLite file of that name. run names the run.
func openDatabase(name, run string) (*database, error) {
	d := &database{dialect: fence.SQLite, prefix: strings.ToLower(strings.ReplaceAll(run, "-", "_")) + "_"}
	driver := "sqlite"
	if strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://") {
		driver, d.dialect = "pgx", fence.Postgres
	} else {
		name = "file:" + name + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate"
	}
	var err error
	if d.DB, err = sql.Open(driver, name); err != nil {
		return nil, errors.New("the database URL can't be read") // the error must not repeat a password
	}
	return d, nil
}

// migrate makes the tables.
func (d *database) migrate(ctx context.Context) error {
	statements, err := fence.Schema(d.dialect, fence.WithTables(d.prefix))
	if err != nil {
		return err
	}
	for _, s := range append(statements, "CREATE TABLE "+d.prefix+"inbox (message VARCHAR(50))") {
		if _, err := d.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("database: %w", err)
		}
	}
	return nil
}

// drop removes what migrate has made.
func (d *database) drop(ctx context.Context) error {
	var errs []error
	for _, table := range []string{"inbox", "fence", "mark", "row"} {
		_, err := d.ExecContext(ctx, "DROP TABLE IF EXISTS "+d.prefix+table)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// insert is the effect of a message.
func (d *database) insert() string {
	placeholder := "?"
	if d.dialect == fence.Postgres {
		placeholder = "$1"
	}
	return "INSERT INTO " + d.prefix + "inbox VALUES (" + placeholder + ")"
}

// count counts messages with an effect, and those with more than one.
func (d *database) count(ctx context.Context) (all, twice int, err error) {
	err = d.QueryRowContext(ctx, "SELECT count(*), count(CASE WHEN effects > 1 THEN 1 END) FROM (SELECT count(*) AS effects FROM "+d.prefix+"inbox GROUP BY message) counted").Scan(&all, &twice)
	return all, twice, err
}
