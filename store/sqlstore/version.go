package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Columns have no room for the upper half of uint64. So they keep version 0 as the smallest
// number there is, and the order stays the same.
func toColumn(version uint64) int64  { return int64(version ^ signBit) }
func fromColumn(column int64) uint64 { return uint64(column) ^ signBit }

const signBit = 1 << 63

// AdvanceVersion implements [driver.Ledger].
func (s *Store) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	return s.ops.AdvanceVersion(ctx, key, version, retention, func(ctx context.Context) (uint64, error) {
		if version > 0 {
			if err := s.raise(ctx, key, version, retention); err != nil {
				return 0, err
			}
		}
		return s.newest(ctx, key, version)
	})
}

// raise keeps the greater of version and the present one.
func (s *Store) raise(ctx context.Context, key string, version uint64, retention time.Duration) error {
	present := "version"
	if s.d != &mysql {
		present = s.q.versionTable + ".version"
	}
	until := present[:len(present)-len("version")] + "until"
	values := fmt.Sprintf("VALUES (?, ?, %s + ?)", s.d.clock)
	if s.d == &postgres {
		values = fmt.Sprintf("SELECT CAST(? AS bytea), CAST(? AS bigint), %s + CAST(? AS bigint)%s", s.d.clock, s.d.bound)
	}
	query := fmt.Sprintf("%sINSERT INTO %s (lock_key, version, until) %s %s version = CASE WHEN %s > %s THEN %s(%s, %s) ELSE %s END, until = %s",
		s.d.bounded, s.q.versionTable, values, s.d.upsert("lock_key"),
		until, s.d.clock, s.d.greatest, present, s.d.value("version"), s.d.value("version"), s.d.value("until"))
	return s.exec(ctx, query, []byte(key), toColumn(version), toMicros(retention))
}

// newest returns the present version, at least least. No later call returns less: another one
// may have raised it meanwhile, and it does not fall.
func (s *Store) newest(ctx context.Context, key string, least uint64) (uint64, error) {
	newest := least
	query := fmt.Sprintf("SELECT version FROM %s WHERE lock_key = ? AND until > %s", s.q.versionTable, s.d.clock)
	err := s.query(ctx, query, []any{[]byte(key)}, nil, func(rows *sql.Rows) error {
		var column int64
		err := rows.Scan(&column)
		newest = max(newest, fromColumn(column))
		return err
	})
	return newest, err
}
