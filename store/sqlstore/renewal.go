package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// renewStatement renews leases on one exclusive claim each, with one statement for all of them, and returns
// those that it has renewed. It waits for no row that another transaction has locked.
func (s *Store) renewStatement(ctx context.Context, batch []*renewal) (renewed map[*renewal]bool, err error) {
	renewed = make(map[*renewal]bool, len(batch))
	if s.d == &mysql {
		if !s.mariaDB {
			return nil, nil // its statements can't skip what is locked
		}
		res, err := s.execOnce(ctx, s.q.renewAll(len(batch)), renewArgs(batch))
		if isLocked(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		n, err := res.RowsAffected()
		for _, r := range batch {
			renewed[r] = n == int64(len(batch))
		}
		return renewed, err
	}
	query, args := s.q.renew, renewArrays(batch)
	if s.d == &sqlite {
		query, args = s.q.renewAll(len(batch)), renewArgs(batch)
	}
	type lease struct{ key, owner string }
	by := make(map[lease]*renewal, len(batch))
	for _, r := range batch {
		by[lease{r.Claims[0].Key, r.Owner}] = r
	}
	err = s.queryOnce(ctx, true, query, args, func(rows *sql.Rows) error {
		var key []byte
		var owner string
		err := rows.Scan(&key, &owner)
		renewed[by[lease{string(key), owner}]] = true
		return err
	})
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
func renewArgs(batch []*renewal) []any {
	ttl := toMicros(batch[0].TTL)
	args := []any{ttl, ttl}
	for _, r := range batch {
		args = append(args, []byte(r.Claims[0].Key))
	}
	for _, r := range batch {
		args = append(args, []byte(r.Claims[0].Key), r.Owner, int64(r.Token))
	}
	return args
}

// renewArrays are those of the statement with arrays.
func renewArrays(batch []*renewal) []any {
	ttl := toMicros(batch[0].TTL)
	var rows [][]any
	for _, r := range batch {
		rows = append(rows, []any{[]byte(r.Claims[0].Key), r.Owner, int64(r.Token)})
	}
	return append(columnsOf(len(releaseColumns), rows), ttl, ttl)
}
