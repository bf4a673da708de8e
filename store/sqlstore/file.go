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

// checkFile finds the file of a SQLite database that is not in memory, and makes its gate.
func (s *Store) checkFile(ctx context.Context) error {
	if s.d != &sqlite {
		return nil
	}
	f := new(file)
	err := s.query(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'", nil, nil, func(rows *sql.Rows) error { return rows.Scan(&f.path) })
	if err != nil || f.path == "" {
		return err
	}
	if f.info, err = os.Stat(f.path); err == nil {
		s.file, s.gate = f, newWriteGate(f.path)
	}
	return nil
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
