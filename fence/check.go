package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/keyturn/keyturn/core"
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
	if token > math.MaxInt64 {
		return &core.OptionError{Option: "token", Value: token, Want: "what fits into a bigint"}
	}
	return nil
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
// Names have letters, digits and "_", in the case in which the database has them; otherwise the
// error matches core.ErrInvalidOption. Other errors: sql.ErrNoRows if there is no such row, and
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

// claim locks the row and returns what it has seen.
func (g *Guard) claim(ctx context.Context, row Row, token uint64) (seen uint64, err error) {
	q := g.dialect.quote
	table, id, column := q(row.Table), q(row.IDColumn), q(row.TokenColumn)
	update := `UPDATE %s SET ` + column + ` = ? WHERE ` + id + ` = ? AND (` + column + ` IS NULL OR ` + column + ` <= ?)`
	var kept sql.NullInt64
	if g.dialect == MySQL { // read first: its count of rows is also 0 for an equal token
		err := g.row(ctx, `SELECT `+column+` FROM %s WHERE `+id+` = ? FOR UPDATE`, table, []any{row.ID}, &kept)
		if err != nil || uint64(kept.Int64) >= token {
			return uint64(kept.Int64), err
		}
		_, err = g.exec(ctx, update, table, int64(token), row.ID, int64(token))
		return token, err
	}
	n, err := g.exec(ctx, update, table, int64(token), row.ID, int64(token))
	if err != nil || n > 0 {
		return token, err
	}
	err = g.row(ctx, `SELECT `+column+` FROM %s WHERE `+id+` = ?`, table, []any{row.ID}, &kept)
	return uint64(kept.Int64), err
}

func (r Row) validate() error {
	var errs []error
	for _, name := range []struct {
		option, value string
		table         bool
	}{{"Row.Table", r.Table, true}, {"Row.IDColumn", r.IDColumn, false}, {"Row.TokenColumn", r.TokenColumn, false}} {
		if !validName(name.value, name.table) {
			errs = append(errs, &core.OptionError{Option: name.option, Value: name.value, Want: "letters, digits and _"})
		}
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
