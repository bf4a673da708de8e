// Package dbtest tests sqlstore with real databases and drivers, which its users need not have.
package dbtest
