package fence

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Mark reports whether id is new, and keeps it with the transaction: if the transaction is rolled
// back, id is new again. So everything else that the transaction does happens once per id.
//
// A transaction that marks an id which another one has marked, and that has not ended, waits for
// its end. id is any name of 1 to 512 bytes. Keep ids of different kinds apart by their beginning.
//
// Errors: core.ErrFingerprintMismatch ([WithFingerprint]), core.ErrInvalidKey,
// core.ErrInvalidOption, [ErrRetry].
func (g *Guard) Mark(ctx context.Context, id string, opts ...MarkOption) (first bool, err error) {
	c, err := configure(opts)
	if err := errors.Join(g.err, err); err != nil {
		return false, err
	}
	first, err = g.mark(ctx, id, noResult, c.fingerprint)
	if err != nil || first || len(c.fingerprint) == 0 {
		return first, err
	}
	rec, err := g.record(ctx, id)
	if err != nil {
		return false, err
	}
	return false, sameContent(id, c.fingerprint, rec.Fingerprint)
}

// sameContent compares fingerprints, if both sides have one.
func sameContent(id string, ours, kept []byte) error {
	if len(ours) > 0 && len(kept) > 0 && !bytes.Equal(ours, kept) {
		return fmt.Errorf("%w: %q", core.ErrFingerprintMismatch, id)
	}
	return nil
}

// What a mark keeps of its execution.
const (
	noResult = iota
	withResult
	nothingYet // its function runs; nobody else sees that, unless the function has ended the transaction
)

// mark inserts the mark; false: it is there already.
func (g *Guard) mark(ctx context.Context, id string, kept int, fingerprint []byte) (first bool, err error) {
	if err := validID(id); err != nil {
		return false, err
	}
	statement := `INSERT INTO %s (id, at, kept, fingerprint) VALUES (?, ` + g.dialect.now() + `, ?, ?)`
	if g.dialect != MySQL { // whose INSERT IGNORE would hide other errors as well
		statement += ` ON CONFLICT (id) DO NOTHING`
	}
	n, err := g.exec(ctx, statement, g.table(g.dialect, "mark"), []byte(id), kept, fingerprint)
	if g.dialect == MySQL && kindOf(err) == kindDuplicate {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keyturn: mark %q: %w", id, err)
	}
	return n > 0, nil
}

// keep adds the record of what was done to the mark of this transaction. MariaDB runs what stands in
// /*M!...*/.
func (g *Guard) keep(ctx context.Context, id string, rec driver.Record) error {
	kept := withResult
	if rec.ResultNotKept {
		kept = noResult
	}
	statement := `UPDATE %s SET kept = ?, fingerprint = ?, result = ?, trace = ? WHERE id = ?`
	if g.dialect == MySQL {
		statement += ` /*M!100000 AND @@in_transaction = 1 */`
	}
	n, err := g.exec(ctx, statement, g.table(g.dialect, "mark"), kept, rec.Fingerprint, rec.Result, rec.Trace, []byte(id))
	switch {
	case err == nil && n == 0:
		err = g.gone(ctx, id)
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil: // the function has called Commit or Rollback
		err = fmt.Errorf("%w: %w", ErrTransactionEnded, err)
	}
	if err != nil {
		return fmt.Errorf("keyturn: mark %q: %w", id, err)
	}
	return nil
}

// gone says why a mark is no longer in its transaction, although the function returned no error.
func (g *Guard) gone(ctx context.Context, id string) error {
	var kept int
	err := g.row(ctx, `SELECT kept FROM %s WHERE id = ?`, g.table(g.dialect, "mark"), []any{[]byte(id)}, &kept)
	switch {
	case err == nil && kept == nothingYet:
		return ErrTransactionEnded
	case err == nil || errors.Is(err, sql.ErrNoRows): // MySQL has rolled back in a deadlock, and the caller took no notice
		return fmt.Errorf("%w: the mark is gone", ErrRetry)
	}
	return err
}

// record reads a mark that mark has found. On MySQL at REPEATABLE READ, a plain SELECT would not
// see a mark that is newer than the transaction's first read. FOR UPDATE would deadlock with
// another duplicate: each has a shared lock on the row from its INSERT.
func (g *Guard) record(ctx context.Context, id string) (rec driver.Record, err error) {
	query := `SELECT kept, fingerprint, result, trace FROM %s WHERE id = ?`
	if g.dialect == MySQL {
		query += ` LOCK IN SHARE MODE`
	}
	kept := noResult
	var trace sql.NullString
	err = g.row(ctx, query, g.table(g.dialect, "mark"), []any{[]byte(id)}, &kept, &rec.Fingerprint, &rec.Result, &trace)
	if kept == nothingYet {
		err = ErrTransactionEnded
	}
	if err != nil {
		return rec, fmt.Errorf("keyturn: mark %q: %w", id, err)
	}
	rec.ResultNotKept, rec.Trace = kept == noResult, trace.String
	return rec, nil
}
