// Package drivers registers the drivers that internal/sqltest opens databases with. Users bring a
// driver of their own, so the root module requires none.
package drivers

import (
	_ "github.com/go-sql-driver/mysql" // "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // "pgx"
	_ "modernc.org/sqlite"             // "sqlite"
)
