package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// look asks for the tables, and warns of settings.
func (s *Store) look(ctx context.Context) error {
	for _, t := range tables {
		query := fmt.Sprintf("SELECT %s FROM %s%s WHERE 1 = 0", strings.Join(t.names(), ", "), s.cfg.prefix, t.name)
		err := s.query(ctx, query, nil, nil, func(*sql.Rows) error { return nil })
		if err == nil {
			continue
		}
		if judge(err) == refused && ctx.Err() == nil {
			return fmt.Errorf("%w: %s%s: %w", ErrSchema, s.cfg.prefix, t.name, err)
		}
		return failure("open", "", err)
	}
	s.warn(ctx)
	return nil
}

// settings are those of a server that may lose what was committed.
var settings = map[*dialect][]struct{ ask, name, safe string }{
	&postgres: {
		{"SELECT current_setting('synchronous_commit')", "synchronous_commit", "on remote_apply remote_write"},
		{"SELECT current_setting('fsync')", "fsync", "on"},
	},
	&mysql: {{"SELECT @@innodb_flush_log_at_trx_commit", "innodb_flush_log_at_trx_commit", "1"}},
}

// warn logs settings with which a crash of the server forgets leases, so that two owners may hold
// a key. A setting that can't be read counts as right.
func (s *Store) warn(ctx context.Context) {
	for _, setting := range settings[s.d] {
		var value string
		err := s.query(ctx, setting.ask, nil, nil, func(rows *sql.Rows) error { return rows.Scan(&value) })
		if err == nil && !strings.Contains(" "+setting.safe+" ", " "+value+" ") {
			s.cfg.log.Warn("sqlstore: the server may forget leases when it crashes", "setting", setting.name, "value", value, "want", setting.safe)
		}
	}
}
