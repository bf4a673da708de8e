package sqlstore

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// The statement for several plain requests has their values in arrays: one for each column, so its text
// is the same for any number of requests, and PostgreSQL plans it once per connection. An array is sent
// as a text, because not every driver can send arrays.

// The columns of the rows of acquisitions and of releases, and their types.
var (
	grantColumns   = []string{"lock_key bytea", "owner text", "inbox text", "reserved bigint", "ttl bigint", "rule bytea", "trace bytea"}
	releaseColumns = []string{"lock_key bytea", "owner text", "token bigint"}
)

// unnested is a table of the arrays in as many arguments.
func unnested(name string, columns []string) string {
	names, args := make([]string, len(columns)), make([]string, len(columns))
	for i, column := range columns {
		var kind string
		names[i], kind, _ = strings.Cut(column, " ")
		args[i] = array(kind)
	}
	return fmt.Sprintf("%s(%s) AS (SELECT * FROM unnest(%s))", name, strings.Join(names, ", "), strings.Join(args, ", "))
}

// array is an argument as an array. The SELECT keeps the planner from counting its elements:
// otherwise a plan for the arguments at hand would look cheaper than the plan that it has, and each
// statement would be planned anew.
func array(kind string) string {
	return fmt.Sprintf("CAST((SELECT CAST(? AS text)) AS %s[])", kind)
}

// batch is the statement for several plain requests, with one row in its answer for each that was
// carried out. free says which rows of the table lock may be taken, and update takes one that exists.
func (d *dialect) batch(lock, free, update string) string {
	if d != &postgres {
		return ""
	}
	grants, releases := unnested("g", grantColumns), unnested("r", releaseColumns)
	mine := "l.owner = r.owner AND l.token = r.token AND l.members = 0"
	// Rows that exist are locked by SKIP LOCKED before they are changed. A key without a row may get one
	// meanwhile, from another statement like this, which is over soon, or from a session that does not end.
	//
	// Every row is looked up by its key: a join, or NOT EXISTS, would read all of a table that is small,
	// and go on with that plan while the table grows.
	return numbered(fmt.Sprintf(`WITH %s, %s,
released AS (INSERT INTO %s AS l (lock_key, owner, token) SELECT r.lock_key, r.owner, r.token FROM r
	WHERE EXISTS (SELECT 1 FROM %s l WHERE l.lock_key = r.lock_key AND %s AND l.until > %s FOR UPDATE SKIP LOCKED)
	ORDER BY r.lock_key ON CONFLICT (lock_key) DO UPDATE SET owner = '', until = 0, flags = 0 WHERE %s RETURNING lock_key),
taken AS (INSERT INTO %s AS l (lock_key, last, owner, inbox, token, reserved, until, since, ttl, rule, trace)
	SELECT g.lock_key, c.us + g.reserved, g.owner, g.inbox, c.us, g.reserved, c.us + g.ttl, c.us, g.ttl, g.rule, g.trace FROM g, (SELECT %s AS us) c, %s
	WHERE EXISTS (SELECT 1 FROM %s l WHERE l.lock_key = g.lock_key AND %s FOR UPDATE SKIP LOCKED)
		OR (SELECT count(*) FROM %s l WHERE l.lock_key = g.lock_key) = 0
	ORDER BY g.lock_key %s RETURNING lock_key, token, reserved)
SELECT lock_key, token, reserved FROM taken UNION ALL SELECT lock_key, 0, 0 FROM released`,
		grants, releases,
		lock, lock, mine, d.clock, strings.ReplaceAll(mine, "r.", "excluded."),
		lock, d.clock, patience, lock, free, lock, update))
}

// arrays are the arguments of the statement for several requests.
func arrays(reqs []*batched) []any {
	var grants, releases [][]any
	for _, r := range reqs {
		if r.release {
			releases = append(releases, r.row)
		} else {
			grants = append(grants, r.row)
		}
	}
	return append(columnsOf(len(grantColumns), grants), columnsOf(len(releaseColumns), releases)...)
}

// columnsOf are n arrays, with the values of a column of rows each.
func columnsOf(n int, rows [][]any) []any {
	texts := make([][]byte, n)
	for _, row := range rows {
		for i, value := range row {
			texts[i] = element(append(texts[i], ','), value)
		}
	}
	args := make([]any, n)
	for i, text := range texts {
		if len(text) > 0 {
			text = text[1:] // a comma
		}
		args[i] = "{" + string(text) + "}"
	}
	return args
}

// quotes are what ends a text in an array, or changes its meaning.
var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// element appends a value to the elements of an array.
func element(text []byte, value any) []byte {
	switch v := value.(type) {
	case int64:
		return strconv.AppendInt(text, v, 10)
	case []byte:
		text = append(text, `"\\x`...)
		return append(hex.AppendEncode(text, v), '"')
	default:
		text = append(text, '"')
		text = append(text, quotes.Replace(v.(string))...)
		return append(text, '"')
	}
}
