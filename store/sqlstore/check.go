package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// check finds the tables, refuses settings under which the store can't keep its promises, and warns of
// others.
func (s *Store) check(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.checkServer, s.checkSettings, s.checkTables, s.checkFile} {
		if err := step(ctx); err != nil {
			return opening(err)
		}
	}
	s.warn(ctx)
	return nil
}

// wheres are how the databases say where they look for tables that are named without it.
var wheres = map[*dialect]string{
	&postgres: "SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass(?)",
	&mysql:    "SELECT DATABASE() FROM (SELECT 1) one WHERE ? <> ''",
}

// plainName are the names of schemas that can stand in any statement.
var plainName = regexp.MustCompile(`^[^?%"` + "`" + `]+$`)

// checkServer finds out where the tables are, and names them with that from now on: a program may change
// the search path, or the default database, of a connection of its pool.
func (s *Store) checkServer(ctx context.Context) error {
	ask, ok := wheres[s.d]
	if !ok {
		return nil
	}
	if s.d == &postgres {
		s.user = s.value(ctx, "SELECT current_user")
	}
	var where string
	err := s.query(ctx, ask, []any{s.cfg.prefix + "lock"}, nil, func(rows *sql.Rows) error { return rows.Scan(&where) })
	if err != nil || where == "" {
		return err // without a table, the check of the tables says so
	}
	if !plainName.MatchString(where) {
		return &settingError{"the schema", where, "a name without ?, % and quotes"}
	}
	quote := `"`
	if s.d == &mysql {
		quote = "`"
		s.mariaDB = strings.Contains(s.value(ctx, "SELECT VERSION()"), "MariaDB")
	}
	s.name(quote + where + quote + "." + s.cfg.prefix)
	return nil
}

// name makes the statements on tables whose names begin with prefix.
func (s *Store) name(prefix string) { s.prefix, s.q = prefix, s.d.statements(prefix) }

// checkTables asks for the tables.
func (s *Store) checkTables(ctx context.Context) error {
	for _, t := range tables {
		query := fmt.Sprintf("SELECT %s FROM %s%s WHERE 1 = 0", strings.Join(t.names(), ", "), s.prefix, t.name)
		err := s.query(ctx, query, nil, nil, func(*sql.Rows) error { return nil })
		if isMissing(err) {
			return fmt.Errorf("%w: %s%s: %w", ErrSchema, s.cfg.prefix, t.name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSettings refuses a session in which a promise would be broken.
func (s *Store) checkSettings(ctx context.Context) error {
	for _, set := range required[s.d] {
		if value := s.value(ctx, set.ask); value != "" && set.risky(value) {
			return &settingError{set.name, value, set.fix()}
		}
	}
	return nil
}

// warn logs settings with which a crash of the server forgets leases, so that two owners may hold
// a key. A setting that can't be read counts as right.
func (s *Store) warn(ctx context.Context) {
	for _, set := range settings[s.d] {
		if value := s.value(ctx, set.ask); value != "" && set.risky(value) {
			s.cfg.log.Warn("sqlstore: the server may forget leases when it crashes", "setting", set.name, "value", value, "want", strings.ReplaceAll(set.safe, "|", " or "))
		}
	}
}
