package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	keyturn "github.com/keyturn/keyturn/core/driver"
)

// state and code are errors as drivers of PostgreSQL and SQLite have them.
type (
	state string
	code  int
)

func (s state) Error() string    { return "ERROR: something (SQLSTATE " + string(s) + ")" }
func (s state) SQLState() string { return string(s) }
func (c code) Error() string     { return "SQL logic error" }
func (c code) Code() int         { return int(c) }

// mysqlError is one as go-sql-driver has it.
func mysqlError(number int, text string) error {
	return fmt.Errorf("Error %d (HY000): %s", number, text)
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want trouble
	}{
		{state("40001"), again},
		{state("40P01"), again},
		{state("57P01"), broken},
		{state("08006"), broken},
		{state("25006"), readOnly},
		{state("42P01"), refused},
		{fmt.Errorf("wrapped: %w", state("40P01")), again},
		{mysqlError(1213, "Deadlock found"), again},
		{mysqlError(1205, "Lock wait timeout exceeded"), locked},
		{mysqlError(1290, "The MySQL server is running with the --read-only option"), readOnly},
		{mysqlError(1146, "Table doesn't exist"), refused},
		{code(5), again},
		{code(5 | 2<<8), again}, // busy, in an extended form
		{code(8), readOnly},
		{code(1), refused},
		{errors.New("database is locked"), again},
		{errors.New("unable to open database file"), refused},
		{driver.ErrBadConn, broken},
		{sql.ErrConnDone, broken},
		{io.ErrUnexpectedEOF, broken},
		{errors.New("invalid connection"), broken},
	} {
		got := judge(tc.err)
		check(t, got == tc.want, "%v: %d, want %d", tc.err, got, tc.want)
	}
}

// TestFailure: an outage is never a context's error, and says whether the server answered.
func TestFailure(t *testing.T) {
	for _, tc := range []struct {
		err     error
		refused bool
	}{
		{context.DeadlineExceeded, false},
		{io.ErrUnexpectedEOF, false},
		{state("42P01"), true},
		{state("25006"), true},
	} {
		err := failure("acquire", "k", tc.err)
		var out *keyturn.UnavailableError
		check(t, errors.As(err, &out) && out.Refused == tc.refused && !errors.Is(err, context.DeadlineExceeded), "%v: %v", tc.err, err)
		if errors.Is(err, ErrReadOnly) != (tc.err == state("25006")) {
			t.Errorf("%v is read-only: %v", tc.err, err)
		}
	}
}
