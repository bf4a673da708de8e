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
	if s.d == &mysql {
		s.mariaDB = strings.Contains(s.value(ctx, "SELECT VERSION()"), "MariaDB")
	}
	s.warn(ctx)
	return nil
}

// warn logs settings with which a crash of the server forgets leases, so that two owners may hold
// a key. A setting that can't be read counts as right.
func (s *Store) warn(ctx context.Context) {
	for _, set := range settings[s.d] {
		if value := s.value(ctx, set.ask); value != "" && set.risky(value) {
			s.cfg.log.Warn("sqlstore: the server may forget leases when it crashes", "setting", set.name, "value", value, "want", set.safe)
		}
	}
}
