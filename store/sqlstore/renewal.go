package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// renewStatement renews leases on one exclusive claim each, with one statement for all of them, and says
// which of them it has renewed. It waits for no row that another transaction has locked.
func (s *Store) renewStatement(ctx context.Context, grants []driver.Grant) (renewed []bool, err error) {
	renewed = make([]bool, len(grants))
	if s.d == &mysql {
		if !s.mariaDB {
			return renewed, nil // its statements can't skip what is locked
		}
		res, err := s.execOnce(ctx, s.q.renewAll(len(grants)), renewArgs(grants))
		if isLocked(err) {
			return renewed, nil
		}
		if err != nil {
			return renewed, err
		}
		n, err := res.RowsAffected()
		for i := range renewed {
			renewed[i] = n == int64(len(grants))
		}
		return renewed, err
	}
	query, args := s.q.renew, renewArrays(grants)
	if s.d == &sqlite {
		query, args = s.q.renewAll(len(grants)), renewArgs(grants)
	}
	type lease struct{ key, owner string }
	at := make(map[lease]int, len(grants))
	for i, g := range grants {
		at[lease{g.Claims[0].Key, g.Owner}] = i
	}
	err = s.queryOnce(ctx, true, query, args, func(rows *sql.Rows) error {
		var key []byte
		var owner string
		err := rows.Scan(&key, &owner)
		if i, ok := at[lease{string(key), owner}]; ok && err == nil {
			renewed[i] = true
		}
		return err
	})
	if err != nil {
		clear(renewed) // rows may arrive although their commit failed
	}
	return renewed, err
}

// renewing makes the statement, or its beginning and end, of what renews plain leases.
func (d *dialect) renewing(lock string) (all string, each func(n int) string) {
	set := fmt.Sprintf("SET until = %s + ?, ttl = ?", d.clock)
	inForce := fmt.Sprintf("l.until > %s AND l.flags = 0 AND l.mode = 0%s", d.clock, d.commits)
	// The keys are named separately, because no index serves three columns at once. Every row is looked up by
	// its key: a join would read all of a table that is small, or that is not much larger than the batch.
	named := func(n int, values string) string {
		return fmt.Sprintf("WHERE l.lock_key IN (%s) AND (l.lock_key, l.owner, l.token) IN (%s%s) AND %s",
			marks(n), values, strings.TrimSuffix(strings.Repeat("(?,?,?),", n), ","), inForce)
	}
	switch d {
	case &postgres:
		return numbered(fmt.Sprintf("WITH %s, k AS (SELECT l.lock_key FROM %s l WHERE l.lock_key = ANY (ARRAY(SELECT lock_key FROM r)) "+
			"AND EXISTS (SELECT 1 FROM r WHERE r.lock_key = l.lock_key AND r.owner = l.owner AND r.token = l.token) AND %s FOR UPDATE OF l SKIP LOCKED) "+
			"UPDATE %s l %s WHERE l.lock_key = ANY (ARRAY(SELECT lock_key FROM k)) RETURNING l.lock_key, l.owner",
			unnested("r", releaseColumns), lock, inForce, lock, set)), nil
	case &sqlite:
		return "", func(n int) string {
			return fmt.Sprintf("UPDATE %s AS l %s %s RETURNING lock_key, owner", lock, set, named(n, "VALUES "))
		}
	default:
		return "", func(n int) string {
			return fmt.Sprintf("%sUPDATE %s l FORCE INDEX (PRIMARY) %s %s", dontWait, lock, set, named(n, ""))
		}
	}
}

// renewArgs are the arguments of the statement that has a place for each value.
func renewArgs(grants []driver.Grant) []any {
	ttl := toMicros(grants[0].TTL)
	args := []any{ttl, ttl}
	for _, g := range grants {
		args = append(args, []byte(g.Claims[0].Key))
	}
	for _, g := range grants {
		args = append(args, []byte(g.Claims[0].Key), g.Owner, int64(g.Token))
	}
	return args
}

// renewArrays are those of the statement with arrays.
func renewArrays(grants []driver.Grant) []any {
	ttl := toMicros(grants[0].TTL)
	var rows [][]any
	for _, g := range grants {
		rows = append(rows, []any{[]byte(g.Claims[0].Key), g.Owner, int64(g.Token)})
	}
	return append(columnsOf(len(releaseColumns), rows), ttl, ttl)
}
