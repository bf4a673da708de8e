package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
)

// pageRows is how many rows one question looks at, at most. It looks them up in the order of their keys, so it
// never reads the whole of a large table.
const pageRows = 5000

// page looks at some rows of a table, the first that fit the condition where, and returns the keys of those
// for which the condition flag is true, most of them at most. next is the key after which the next page begins;
// nil: there is none.
func (s *Store) page(ctx context.Context, table, where string, args []any, flag string, looks, most int) (keys []string, next []byte, err error) {
	// The last row comes in any case, to say where the page ends.
	query := fmt.Sprintf("WITH p AS (SELECT lock_key, CASE WHEN %s THEN 1 ELSE 0 END AS flagged FROM %s WHERE %s ORDER BY lock_key LIMIT %d), "+
		"e AS (SELECT lock_key, (SELECT count(*) FROM p) AS n FROM p ORDER BY lock_key DESC LIMIT 1) "+
		"SELECT p.lock_key, p.flagged, e.n FROM p JOIN e ON 1 = 1 WHERE p.flagged = 1 OR p.lock_key = e.lock_key ORDER BY p.lock_key LIMIT %d",
		flag, table, where, looks, most+1)
	err = s.query(ctx, query, args, func() { keys, next = nil, nil }, func(rows *sql.Rows) error {
		var key []byte
		var flagged, n int
		if err := rows.Scan(&key, &flagged, &n); err != nil || len(keys) == most {
			return err
		}
		if flagged == 1 && (len(keys) == 0 || keys[len(keys)-1] != string(key)) {
			keys = append(keys, string(key))
		}
		if n == looks || len(keys) == most {
			next = key
		}
		return nil
	})
	return keys, next, err
}
