// Package fence gives a database the last word over what a lease protects. It works in the
// caller's own transaction, on PostgreSQL, MySQL, MariaDB and SQLite.
//
//	err := eng.Do(ctx, "account:42", func(ctx context.Context) error {
//		tx, err := db.BeginTx(ctx, nil)
//		if err != nil {
//			return err
//		}
//		defer tx.Rollback()
//		if err := fence.On(tx, fence.Postgres).CheckLease(ctx, "account:42"); err != nil {
//			return err // a later lease has written
//		}
//		...
//		return tx.Commit()
//	})
//
// No lease can stop a process that is paused between its last check and its write. The database
// can, because it sees both writers. Which part of the package is needed depends on where the
// lock is and where the effect is:
//
//	the lock is elsewhere, the effect is in this database   Guard.Check, Guard.Claim, Written
//	all work is in one transaction of this database         Guard.Lock: no lease is needed
//	conflicts are rare                                      Optimistic, and a version column
//	a message must have one effect, whatever breaks         Once; in a middleware: WithDatabase
//
// # Tables
//
// The package needs three tables of its own, which [Schema] describes. It never creates them
// itself. [Sweep] deletes what is old. Guard.Claim, Written and Optimistic need only the user's
// own tables.
//
// # Drivers
//
// The package imports database/sql and no driver. Package fencepgx is for pgx without database/sql.
// For others of that kind there are [Through], [OnceThrough], [WithDatabaseThrough] and
// [SweepThrough]. This package recognizes a driver's errors by what most
// drivers have in common:
//
//	PostgreSQL  the method SQLState of an error: pgx, lib/pq
//	MySQL       the beginning of an error's text: "Error 1213": go-sql-driver/mysql
//	SQLite      the text "database is locked": modernc.org/sqlite, mattn/go-sqlite3
//
// # Isolation levels
//
// Check, Claim, Lock and Mark are right at READ COMMITTED, REPEATABLE READ and SERIALIZABLE. At
// the higher levels a conflict may appear as [ErrRetry] instead of [ErrStale] or a duplicate.
// Then the database has rolled the transaction back, or the caller must do it, and all of it has
// to be repeated. [Once] does that by itself.
package fence
