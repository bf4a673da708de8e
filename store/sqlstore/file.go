package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
)

// file is that of a SQLite database. Somebody may delete it or put another one in its place. Connections
// that are open go on with the one that nobody else finds any more, so every request looks.
type file struct {
	path string
	info os.FileInfo
}

// fileOf returns the file of the store's database; nil: it is in memory.
func fileOf(ctx context.Context, s *Store) *file {
	f := new(file)
	err := s.query(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'", nil, nil, func(rows *sql.Rows) error { return rows.Scan(&f.path) })
	if err != nil || f.path == "" {
		return nil
	}
	if f.info, err = os.Stat(f.path); err != nil {
		return nil
	}
	return f
}

// check returns [ErrReplaced] if the file is not there any more.
func (f *file) check() error {
	if f == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	if err == nil && !os.SameFile(f.info, now) || errors.Is(err, fs.ErrNotExist) {
		return ErrReplaced
	}
	return nil
}
