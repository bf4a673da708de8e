package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/pgx/fencepgx"
)

// Claim took a negative number for a token, or for none, depending on the database. A column that is
// too narrow, or that does not compare as numbers do, is no fence either: MariaDB without strict mode
// cuts numbers off.
func TestClaimOfAColumnWithoutTokens(t *testing.T) {
	const token = 1 << 50 // tokens follow the clock
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		numeric, text, claim := "NUMERIC(30)", "VARCHAR(40)", db.claimer(t, driver)
		for i, c := range []struct {
			column, value string
			want          error
		}{
			{"BIGINT", "NULL", nil},
			{"BIGINT", "0", nil},
			{"BIGINT", fmt.Sprint(token), nil},
			{"BIGINT", fmt.Sprint(token + 1), fence.ErrStale},
			{"BIGINT", "9223372036854775807", fence.ErrStale},
			{"BIGINT", "-5", core.ErrInvalidOption},
			{"BIGINT", "-9223372036854775808", core.ErrInvalidOption},
			{numeric, "18446744073709551615", fence.ErrStale},
			{numeric, "100000000000000000000", core.ErrInvalidOption},
			{"INT", "1", core.ErrInvalidOption}, // SQLite's INT has 64 bits
			{text, "'9'", core.ErrInvalidOption},
			{text, "'words'", core.ErrInvalidOption},
		} {
			switch {
			case db.dialect == fence.SQLite && c.column == "INT", db.dialect == fence.MySQL && c.value == "'9'":
				c.want = nil // MySQL compares text with numbers as numbers
			case db.dialect == fence.SQLite && c.column == numeric:
				c.want = core.ErrInvalidOption // a float
			}
			table := fmt.Sprintf("account%d", i)
			db.run(t, fmt.Sprintf(`CREATE TABLE %s (id INT PRIMARY KEY, token %s)`, table, c.column),
				fmt.Sprintf(`INSERT INTO %s VALUES (1, %s)`, table, c.value))
			row := fence.Row{Table: table, IDColumn: "id", ID: 1, TokenColumn: "token"}
			err := claim(row, token)
			check(t, errors.Is(err, c.want), "%s %s: %v, want %v", c.column, c.value, err, c.want)
			if i == 0 {
				row.ID = 2
				expect(t, claim(row, token), sql.ErrNoRows)
			}
		}
	})
}

// claimer returns a function that claims in a transaction of that driver's, and commits if the answer is nil. On
// MariaDB, no mode is strict.
func (db *database) claimer(t *testing.T, driver string) func(fence.Row, uint64) error {
	t.Helper()
	dsn := db.DSN()
	if db.dialect == fence.MySQL {
		dsn += "?sql_mode=%27%27"
	}
	c := db.connect(t, driver, dsn, func() {})
	return func(row fence.Row, token uint64) error {
		if b, ok := c.(pgxBackend); ok {
			return pgx.BeginFunc(bounded(t), b.pool, func(tx pgx.Tx) error {
				return fencepgx.On(tx).Claim(context.Background(), row, token)
			})
		}
		tx, err := c.(sqlBackend).db.BeginTx(bounded(t), nil)
		must(t, err)
		defer tx.Rollback()
		if err := fence.On(tx, db.dialect).Claim(bounded(t), row, token); err != nil {
			return err
		}
		return tx.Commit()
	}
}
