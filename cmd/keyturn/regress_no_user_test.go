package main

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
)

// Without a user, etcd's refusal had the status of a server that does not answer.
func TestNoUserIsForbidden(t *testing.T) {
	err := &driver.UnavailableError{Op: "list", Err: errors.New("etcdserver: user name is empty"), Refused: true}
	if status := statusOf(err); status != statusForbidden {
		t.Errorf("status %d", status)
	}
}
