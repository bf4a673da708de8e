// Package sqlstore keeps leases in a SQL database, where every process that uses the database
// sees them: PostgreSQL, MariaDB, or a SQLite file for the processes of one machine.
//
//	db, err := sql.Open("pgx", dsn) // any driver; this package imports none
//	...
//	err = sqlstore.Migrate(ctx, db, sqlstore.Postgres)
//	...
//	store, err := sqlstore.New(ctx, db, sqlstore.Postgres)
//	...
//	eng, err := core.New(store)
//
// # What is in the database
//
// Five tables, whose names begin with [WithPrefix]: lock has a row per key, and in it the exclusive
// holder; member has the other holders and those who wait; record and version have what Once and
// AdvanceVersion remember; forced has the reasons of forced releases. Keys are bytes, so no collation makes
// two of them equal. Rows that have been idle for a day are deleted.
//
// # A request
//
// One statement takes an exclusive lock that is free, and one releases it if nobody waits. On
// PostgreSQL, such requests leave as a batch when more than three callers have one at a time: the others
// wait until a statement is back, and the next one is for all of them. It skips rows that are locked.
// Every other request is a short transaction. It locks the rows of its keys in the order of the keys, reads
// who holds them and who waits, decides in Go (internal/keystate), and writes what has changed. The single
// statements are the same decision in SQL. So all processes take turns at a key, and two sets never
// deadlock. The isolation level is READ COMMITTED for these transactions alone, whatever the session's
// default is. A transaction that the database rolls back because of others is repeated. A renewal waits
// for no row that is locked, and the server ends a transaction whose client is silent for 2 s.
//
// All times are those of the database's clock at a moment when the rows are locked. The clocks of
// the processes don't matter. Nothing belongs to a session: no SET, no temporary table, no advisory
// lock. So the store works behind a pooler that gives each transaction another connection.
//
// # Waiting
//
// A request that waits has a row in the table of members, and no connection. While requests of a
// process wait, one query per look asks for all of them whether it is their turn: after 10 ms at
// first, then less and less often, every 200 ms at last ([WithPoll]). A release wakes waiters of the
// same process directly. On PostgreSQL, messages wake those of other processes, if the store has a
// [Waker]. A process that waits for nothing asks nothing.
//
// A waiter that has got the lock, and whose process died unnoticed, blocks the others for half the
// waiter lease ([WithWaiterLease]), so 3 s by default, or for its TTL if that is shorter.
//
// # What it costs
//
// In round trips. A process that waits for nothing sends only the renewals of its leases.
//
//	acquire a free exclusive lock, or release it if nobody waits     1
//	a refusal; a record of Once (PostgreSQL and MariaDB)             2; 3
//	renew up to 500 exclusive leases with the same TTL               1; 5 at most, and as many for each lease
//	                                                                 whose row somebody has locked
//	any other request                                                at most 4 on PostgreSQL, 5 on SQLite and MariaDB,
//	                                                                 7 on MySQL; 2 more if it looks like one of the first
//	hand over to another process, on PostgreSQL with messages        6, from the call of Release to the grant
//	look for all requests of a process that wait                     1
//	wait, each third of the waiter lease                             1
//
// # What can go wrong
//
// The database does not answer: every call returns when its context ends, with an error that matches
// driver.ErrUnavailable. Its statements go on for up to 5 s, and what they have done for nobody is
// undone. The same is done if the answer to a COMMIT is lost, when a request may or may not have
// been carried out.
//
// A connection is dead, or leads to a server that has become read-only: it is closed, and the
// request is sent on another one.
//
// The database forgets what it has committed, because of its settings or because a replica without
// the last writes took over: two owners may hold a key. [New] warns of such settings. Tokens still
// increase, because they follow the clock. A resource that must be safe compares them.
//
// # By URL
//
// Importing the package registers these schemes with package storeurl. Close then closes the pool,
// too. The program also imports a driver of database/sql: pgx or lib/pq, go-sql-driver/mysql,
// modernc.org/sqlite or mattn/go-sqlite3.
//
//	postgres://USER:PASSWORD@HOST:5432/DB?sslmode=verify-full
//	mysql://USER:PASSWORD@HOST:3306/DB?tls=true
//	sqlite:FILE
//
// On PostgreSQL such a store has a [Waker] if the program imports package pgwake, unless the parameter
// waker is off. The other parameters are prefix, waiter_lease, poll and max_conns, as the options of
// [New], and these of the drivers: for PostgreSQL sslmode, sslrootcert, sslcert, sslkey,
// connect_timeout, target_session_attrs, application_name, search_path and default_query_exec_mode;
// for MySQL tls, timeout, readTimeout and writeTimeout; for SQLite synchronous. Prepare of storeurl
// calls [Migrate].
package sqlstore
