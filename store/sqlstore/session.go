package sqlstore

import (
	"fmt"
	"time"
)

// A store sets what its transactions need of a session, and only for the transaction: the pool is the
// program's, and a pooler may give the session to somebody else afterwards.

const (
	// rowPatience is how long a statement waits for a row that another transaction has locked. MariaDB
	// counts seconds.
	rowPatience = time.Second
	// silentPatience is how long the server waits for the next statement of a transaction. A process that
	// was stopped, or whose network is gone, keeps rows locked for that long.
	silentPatience = 2 * time.Second
)

// boundRows makes a statement of its own wait for rowPatience at most, where the server can do that: what
// only MariaDB knows is a comment to MySQL.
var boundRows = fmt.Sprintf("/*M!100100 SET STATEMENT innodb_lock_wait_timeout=%d FOR */ ", rowPatience/time.Second)

// dontWait makes a statement wait for no row.
const dontWait = "/*M!100100 SET STATEMENT innodb_lock_wait_timeout=0 FOR */ "

// patience does so on PostgreSQL, as one of the tables of the statement.
var patience = fmt.Sprintf("(SELECT set_config('lock_timeout', '%d', true)) patience", rowPatience.Milliseconds())

// beginPostgres begins a transaction, in one round trip.
var beginPostgres = fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d",
	rowPatience.Milliseconds(), silentPatience.Milliseconds())

// beginMariaDB does so, and keeps what [tx.ending] sets back. MySQL has no such blocks, and no bound for
// silent transactions.
var beginMariaDB = fmt.Sprintf("BEGIN NOT ATOMIC SET @keyturn_rows = @@innodb_lock_wait_timeout, @keyturn_idle = @@idle_transaction_timeout; "+
	"SET SESSION innodb_lock_wait_timeout = %d, SESSION idle_transaction_timeout = %d; "+
	"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; ", rowPatience/time.Second, silentPatience/time.Second)

// ending returns the statement that ends the transaction by COMMIT or ROLLBACK.
func (t *tx) ending(how string) string {
	if t.s.mariaDB {
		return "BEGIN NOT ATOMIC " + how + "; SET SESSION innodb_lock_wait_timeout = @keyturn_rows, SESSION idle_transaction_timeout = @keyturn_idle; END"
	}
	return how
}
