package fence

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// Dialect is the kind of a database. The zero value is none, and an error wherever it is given.
type Dialect int

// The dialects. MySQL is also that of MariaDB.
const (
	Postgres Dialect = iota + 1
	MySQL
	SQLite
)

func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) validate() error {
	return driver.CheckOption(d >= Postgres && d <= SQLite, "Dialect", d, "Postgres, MySQL or SQLite")
}

// bind turns each ? of a statement into the dialect's placeholder. No statement of this package
// has a ? elsewhere: values are never a part of it, and validated identifiers have none.
func (d Dialect) bind(statement string) string {
	if d != Postgres {
		return statement
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}

// now is the database's clock in milliseconds since 1970, when the statement began. A function whose
// value may change within a statement would keep Sweep from its index.
func (d Dialect) now() string {
	switch d {
	case Postgres:
		return "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS bigint)"
	case MySQL:
		return "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"
	}
	return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
}

// quote quotes a name that validName accepts, so that it may be a reserved word.
func (d Dialect) quote(name string) string {
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, ".", mark+"."+mark) + mark
}

// maxNameBytes is PostgreSQL's limit, the shortest of the three. It cuts longer names off, and
// two names would become one.
const maxNameBytes = 63

// validName accepts letters, digits and "_", not beginning with a digit, and dots between up to
// three such parts if the name is that of a table.
func validName(name string, table bool) bool {
	parts := strings.Split(name, ".")
	if len(parts) > 3 || len(parts) > 1 && !table {
		return false
	}
	for _, part := range parts {
		if part == "" || len(part) > maxNameBytes || part[0] >= '0' && part[0] <= '9' || strings.ContainsFunc(part, notOfName) {
			return false
		}
	}
	return true
}

func notOfName(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// maxIDBytes is what a key column holds.
const maxIDBytes = 512

// validID checks what a row of the package's tables is found by.
func validID(id string) error {
	switch {
	case id == "":
		return &core.KeyError{Key: id, Reason: "is empty"}
	case len(id) > maxIDBytes:
		return &core.KeyError{Key: id[:maxIDBytes], Reason: fmt.Sprintf("has more than %d bytes", maxIDBytes)}
	}
	return nil
}
