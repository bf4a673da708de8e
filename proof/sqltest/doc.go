// Package sqltest tests store/sqlstore in a program that does not link pgx/pgwake.
package sqltest
