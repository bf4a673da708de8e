package sqlstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/storeurl"
)

var check = checktest.That

// A program that links no driver is told so.
func TestURLWithoutDriver(t *testing.T) {
	_, err := storeurl.Open(t.Context(), "postgres://:secret@host/db")
	if !errors.Is(err, storeurl.ErrInvalidURL) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"postgres://host/db", "pgx", "github.com/jackc/pgx/v5/stdlib"} {
		check(t, strings.Contains(err.Error(), want), "%v does not name %s", err, want)
	}
}

// A script needs neither driver nor database. All of its tables have the prefix.
func TestURLScript(t *testing.T) {
	for text, want := range map[string]string{"postgres://h/db": "bytea", "mysql://h/db": "ENGINE=InnoDB", "sqlite:f": "BLOB"} {
		u, err := storeurl.Parse(text + "?prefix=a_")
		checktest.Must(t, err)
		got, err := u.Script()
		n := strings.Count(got, "CREATE TABLE IF NOT EXISTS a_")
		check(t, err == nil && n == len(tables) && strings.Contains(got, want) && !strings.Contains(got, DefaultPrefix), "%s: %q, %v", text, got, err)
	}
}

func TestSources(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://me:a'b%5C@h,i:1/db?sslmode=disable&prefix=x": `host='h,i' port='5432,1' dbname='db' user='me' password='a\'b\\' sslmode='disable'`,
		"mysql://me:p%2F%40:@[::1]/a%2Fb?tls=true&timeout=2s":    "me:p/@:@tcp([::1]:3306)/a%2Fb?timeout=2s&tls=true",
		"sqlite:/a%20b%3F.db": "file:/a%20b%3F.db?mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)" +
			"&_busy_timeout=5000&_journal_mode=wal&_synchronous=full",
	} {
		u, err := storeurl.Parse(text)
		checktest.Must(t, err)
		d := map[string]database{"postgres": {dialect: Postgres, source: postgresSource}, "mysql": {dialect: MySQL, source: mysqlSource}, "sqlite": {dialect: SQLite, source: sqliteSource}}[u.Scheme]
		if got, err := d.read(u, false); err != nil || got.source != want {
			t.Errorf("%s: %v\n%s, want\n%s", text, err, got.source, want)
		}
	}
}

// Messages are wanted, and the program does not import what receives them.
func TestURLWakerOfNobody(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://h/db?waker=on":    "imports github.com/keyturn/keyturn/pgx/pgwake",
		"postgres://h/db?waker=maybe": "one of on, off",
		"mysql://h/db?waker=off":      `there is no parameter "waker"`,
	} {
		_, err := storeurl.Open(t.Context(), text)
		check(t, errors.Is(err, storeurl.ErrInvalidURL) && strings.Contains(err.Error(), want), "%s: %v", text, err)
	}
}
