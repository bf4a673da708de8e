package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

type state string

func (s state) Error() string    { return "constraint failed" } // what it says does not count
func (s state) SQLState() string { return string(s) }

// What a COMMIT's error proves. fencetest has those that real servers give.
func TestRolledBack(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{sql.ErrTxDone, true},
		{state("23503"), true},
		{state("40001"), true},
		{state("P0001"), true},
		{state("MY001"), true}, // RAISE ... USING ERRCODE, in a deferred trigger
		{state("53100"), true}, // disk_full
		{state("40003"), false},
		{state("08006"), false},
		{state("08P01"), false},
		{state("53300"), false},
		{state("57014"), false},
		{state("57P01"), false},
		{state("58030"), false},
		{state("XX000"), false},
		{fmt.Errorf("in a wrapper: %w", state("57P01")), false},
		{errors.New("Error 1213 (40001): Deadlock found"), true},
		{errors.New("Error 1290 (HY000): The MariaDB server is running with the --read-only option"), true},
		{errors.New("Error 1053 (08S01): Server shutdown in progress"), false},
		{errors.New("Error 1180 (HY000): Got error 5 during COMMIT"), false},
		{errors.New("Error 1927 (70100): Connection was killed"), false},
		{errors.New("Error 10012 (HY000): of a proxy: constraint failed"), false},
		{errors.New("Error in the network"), false},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), true},
		{errors.New("constraint failed: FOREIGN KEY constraint failed (787)"), true},
		{errors.New("database or disk is full (13)"), true},
		{errors.New("disk I/O error (10)"), false},
		{errors.New("cannot commit - no transaction is active"), false},
		{fmt.Errorf("%w, %w", error(nil), error(nil)), false}, // it wraps several errors, which are none
		{driver.ErrBadConn, false},
		{io.ErrUnexpectedEOF, false},
		{context.Canceled, false},
		{errNoAnswer, false},
	} {
		if got := rolledBack(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A trace with which the signature would not fit is dropped. A mark of an older release has none.
func TestSignature(t *testing.T) {
	for text, want := range map[string][2]string{
		"00-1-2-01":               {"00-1-2-01", ""},
		sign("00-1-2-01", "call"): {"00-1-2-01", "call"},
		sign(strings.Repeat("x", traceBytes), "call"): {"", "call"},
	} {
		if trace, call := signed(text); trace != want[0] || call != want[1] {
			t.Errorf("%q was signed by %q", trace, call)
		}
	}
}

// Of several options about one matter the last one counts.
func TestTheLastOptionCounts(t *testing.T) {
	for _, tc := range []struct {
		opts []LockOption
		want config
	}{
		{[]LockOption{NoWait(), Within(time.Second)}, config{within: time.Second}},
		{[]LockOption{Within(time.Second), NoWait()}, config{noWait: true}},
		{[]LockOption{Within(time.Minute), Within(time.Second)}, config{within: time.Second}},
	} {
		if got, err := configure(tc.opts); err != nil || got.noWait != tc.want.noWait || got.within != tc.want.within {
			t.Errorf("%+v, %v; want %+v", got, err, tc.want)
		}
	}
	got, err := configure([]OnceOption{WithTables("a_"), WithTables("b_"), WithAttempts(1), WithAttempts(2)})
	if err != nil || got.prefix != "b_" || got.attempts != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := configure([]OnceOption{WithAttempts(0), WithAttempts(1)}); err == nil {
		t.Error("no error for a wrong option before a right one")
	}
}
