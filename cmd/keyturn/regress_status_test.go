package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// Errors of a store that had the status of another one.
func TestStatusOfAnError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		// etcd's refusal without a user was a server that does not answer.
		"no user": {&driver.UnavailableError{Op: "list", Err: errors.New("etcdserver: user name is empty"), Refused: true}, statusForbidden},
		// A missing database was a bug.
		"no database": {fmt.Errorf("migrate: %w", sqlstore.ErrNoDatabase), statusConfig},
	} {
		status := statusOf(c.err)
		check(t, status == c.want, "%s: status %d, want %d", name, status, c.want)
	}
}
