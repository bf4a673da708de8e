// Package rivertest tests lockriver with River and a real PostgreSQL.
package rivertest
