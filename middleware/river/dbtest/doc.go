// Package dbtest tests lockriver with River and a real PostgreSQL.
package dbtest
