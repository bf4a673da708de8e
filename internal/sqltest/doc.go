// Package sqltest gives tests databases of their own: PostgreSQL, MariaDB and SQLite.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(sqltest.Main(m)) }
//
//	func TestX(t *testing.T) {
//		db := sqltest.Postgres(t).Open(t)
//		...
//
// [Postgres] and [MySQL] start one server per test binary, when a test first asks for it, and
// make a new database on it for each call. [SQLite] makes a file. A test that kills or pauses its
// server, or wants other settings, takes one for itself: [StartPostgres], [StartMySQL].
// [Server.Replica] follows a PostgreSQL. [Database.Bouncer] puts a pgbouncer in front,
// internal/servertest.NewProxy a network that fails,
// and [Faults] a driver that does.
//
// The test binary has to import the drivers "pgx", "mysql" and "sqlite", as far as it uses them, also
// if it opens the databases in another way.
//
// The servers keep their data in a temporary directory, over a Restart too, and listen on the
// loopback interface. They don't wait for the disk: a process that is killed loses nothing that
// the kernel has. They run as the user of the tests, or as one without privileges if the tests
// run as root, because these servers refuse to run as root.
//
// A server ends with its test or with the test binary, even if that is killed.
package sqltest
