package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Check refuses a token that is smaller than one that resource has seen, with a *[StaleError].
// Otherwise the resource has now seen this token. An equal token passes: a lease may write many
// times.
//
// The resource's row stays locked until the transaction ends, so transactions that check later
// also commit later. Call it before the first write. resource is any name of 1 to 512 bytes; the
// lock's key is a good one. One row is kept for each resource, for ever.
//
// Other errors: core.ErrNotHeld for token 0, which no lease has; core.ErrInvalidKey; [ErrRetry].
func (g *Guard) Check(ctx context.Context, resource string, token uint64) error {
	if err := errors.Join(g.err, validID(resource), validToken(token)); err != nil {
		return err
	}
	var seen uint64
	var err error
	if g.dialect == MySQL {
		seen, err = g.raise(ctx, resource, token)
	} else {
		seen, err = g.upsert(ctx, resource, token)
	}
	if err != nil {
		return fmt.Errorf("keyturn: check %q: %w", resource, err)
	}
	if seen > token {
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}

// CheckLease is [Guard.Check] with the token of the lease in ctx ([core.LeaseFrom]). Without a
// lease the error matches core.ErrNotHeld; after its end, core.ErrLeaseLost or core.ErrReleased.
func (g *Guard) CheckLease(ctx context.Context, resource string) error {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return fmt.Errorf("keyturn: check %q: the context has no lease: %w", resource, core.ErrNotHeld)
	}
	if err := lease.Err(); err != nil {
		return err
	}
	return g.Check(ctx, resource, lease.Token())
}

func validToken(token uint64) error {
	if token == 0 {
		return fmt.Errorf("keyturn: token 0 is none: %w", core.ErrNotHeld)
	}
	return driver.CheckOption(token <= math.MaxInt64, "token", token, "what fits into a bigint")
}

// upsert is Check in one statement; it returns what the resource has seen. The row is locked even
// if WHERE leaves it as it is.
func (g *Guard) upsert(ctx context.Context, resource string, token uint64) (seen uint64, err error) {
	table := g.table(g.dialect, "fence")
	n, err := g.exec(ctx, `INSERT INTO %s AS f (resource, token) VALUES (?, ?)
		ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`,
		table, []byte(resource), int64(token))
	if err != nil || n > 0 {
		return token, err
	}
	err = g.row(ctx, `SELECT token FROM %s WHERE resource = ?`, table, []any{[]byte(resource)}, &seen)
	return seen, err
}

// raise is Check for MySQL, whose count of rows does not tell an equal token from a smaller one:
// both change nothing. INSERT IGNORE would be simpler, but it takes a shared lock on a row that
// exists, and two transactions that then want to change the row deadlock. ON DUPLICATE KEY UPDATE
// takes the exclusive lock at once. FOR UPDATE reads the row as it is: at REPEATABLE READ, a plain
// SELECT would read it as it was when the transaction began.
func (g *Guard) raise(ctx context.Context, resource string, token uint64) (seen uint64, err error) {
	table := g.table(g.dialect, "fence")
	if _, err := g.exec(ctx, `INSERT INTO %s (resource, token) VALUES (?, ?)
		ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`, table, []byte(resource), int64(token)); err != nil {
		return 0, err
	}
	err = g.row(ctx, `SELECT token FROM %s WHERE resource = ? FOR UPDATE`, table, []any{[]byte(resource)}, &seen)
	return seen, err
}

// Row is a row of the caller's own that keeps the greatest token it has seen, in a column that
// holds 64 bits. A NULL there has seen none.
type Row struct {
	Table       string // perhaps with a schema: "bank.account"
	IDColumn    string // the primary key, or a column with a unique index
	ID          any
	TokenColumn string
}

// Claim is [Guard.Check] with a row of the caller's own instead of the package's table. The row
// is locked until the transaction ends, so the transaction may then write it in any way.
//
// Names have letters, digits and "_", in the case in which the database has them. Otherwise the
// error matches core.ErrInvalidOption, as it does if the column holds something that is no token,
// such as -5, or cannot hold this one. Roll back then, too. Other errors: sql.ErrNoRows if there is no such row, and
// those of Check.
func (g *Guard) Claim(ctx context.Context, row Row, token uint64) error {
	if err := errors.Join(g.err, row.validate(), validToken(token)); err != nil {
		return err
	}
	seen, err := g.claim(ctx, row, token)
	if err != nil {
		return fmt.Errorf("keyturn: claim %s: %w", row, err)
	}
	if seen > token {
		return &StaleError{Resource: row.String(), Token: token, Seen: seen}
	}
	return nil
}

// claim locks the row, writes the token unless the row has seen a greater one, and returns what the
// row has then.
func (g *Guard) claim(ctx context.Context, row Row, token uint64) (seen uint64, err error) {
	q := g.dialect.quote
	table, id, column := q(row.Table), q(row.IDColumn), q(row.TokenColumn)
	words := columnWords[g.dialect]
	shown := fmt.Sprintf(words.shown, column)
	update := fmt.Sprintf(`UPDATE %%s SET %[1]s = %[2]s WHERE %[3]s = ? AND (%[1]s IS NULL OR %[4]s)`, column, words.token, id, fmt.Sprintf(words.fits, column))
	read := `SELECT ` + shown + ` FROM %s WHERE ` + id + ` = ?`
	args := []any{int64(token), row.ID, int64(token)}
	var kept sql.NullString
	if g.dialect == MySQL { // which has no RETURNING, and counts no row for an equal token
		if _, err = g.exec(ctx, update, table, args...); err == nil {
			err = g.row(ctx, read+` FOR UPDATE`, table, []any{row.ID}, &kept)
		}
	} else if err = g.row(ctx, update+` RETURNING `+shown, table, args, &kept); errors.Is(err, sql.ErrNoRows) {
		err = g.row(ctx, read, table, []any{row.ID}, &kept)
	}
	if notNumbers[codeIn(err)] {
		return 0, errors.Join(row.noTokens("no numbers of 64 bits"), err)
	}
	if err != nil {
		return 0, err
	}
	seen, err = strconv.ParseUint(kept.String, 10, 64)
	if err != nil || seen < token {
		return 0, row.noTokens(fmt.Sprintf("%.40q", kept.String))
	}
	return seen, nil
}

// columnWords are a dialect's words for a column of the caller's, which may have any type and hold
// anything.
var columnWords = map[Dialect]struct{ shown, token, fits string }{
	Postgres: {"CAST(%s AS text)", "CAST(? AS bigint)", "%s BETWEEN 0 AND CAST(? AS bigint)"},
	MySQL:    {"CAST(%s AS char)", "?", "%[1]s REGEXP '^[0-9]+$' AND %[1]s <= ?"}, // its text compares with numbers
	SQLite:   {"quote(%s)", "?", "typeof(%[1]s) = 'integer' AND %[1]s <= ? AND %[1]s >= 0"},
}

// notNumbers are the errors of a column that does not take a token, or does not compare with one.
var notNumbers = map[string]bool{
	"22003":            true, // numeric_value_out_of_range
	"42804":            true, // datatype_mismatch
	"42883":            true, // undefined_function: no such comparison
	mysqlCode + "1264": true, // ER_WARN_DATA_OUT_OF_RANGE
	mysqlCode + "1292": true, // ER_TRUNCATED_WRONG_VALUE
	mysqlCode + "1366": true, // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
}

// noTokens is the error of a column that is no fence. Without it, each write would pass.
func (r Row) noTokens(holds string) error {
	return &core.OptionError{Option: "Row.TokenColumn", Value: r.TokenColumn, Want: "a column of 64 bits that holds tokens; that of " + r.String() + " holds " + holds}
}

func (r Row) validate() error {
	var errs []error
	for _, name := range []struct {
		option, value string
		table         bool
	}{{"Row.Table", r.Table, true}, {"Row.IDColumn", r.IDColumn, false}, {"Row.TokenColumn", r.TokenColumn, false}} {
		errs = append(errs, driver.CheckOption(validName(name.value, name.table), name.option, name.value, "letters, digits and _"))
	}
	return errors.Join(errs...)
}

// String names the row without the token.
func (r Row) String() string { return fmt.Sprintf("%s/%v", r.Table, r.ID) }

// Written is for an UPDATE of the caller's own that compares a token or a version itself:
//
//	err := fence.Written(tx.ExecContext(ctx,
//		`UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2`, balance, lease.Token(), id))
//
// It returns nil if a row was written, [ErrStale] if none was, and err otherwise, as [ErrRetry] if
// the transaction has to be repeated. MySQL counts only rows that changed. So there, set
// clientFoundRows=true in the data source name, or have the UPDATE change something each time.
func Written(res sql.Result, err error) error {
	if err != nil {
		return explain(err)
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrStale
	}
	return err
}
