// Package sqltest tests internal/sqltest, which has no drivers itself.
package sqltest
