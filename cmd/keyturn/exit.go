package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock"
	"github.com/keyturn/keyturn/store/sqlstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// The statuses of the command's own. Where a program that it ran has come to its end, the status is
// that program's.
const (
	statusNo          = 1  // a risk was found, an answer was no, nodes are not new
	statusUsage       = 64 // the command line, a key or an option is wrong
	statusNothing     = 66 // there is no such lock or record
	statusUnavailable = 69 // the store does not answer
	statusBug         = 70 // anything that is not expected
	statusHeld        = 75 // somebody else holds the key
	statusLost        = 76 // the lease was lost
	statusForbidden   = 77 // the store does not permit it
	statusConfig      = 78 // no store, a wrong URL, missing tables
	statusNotRun      = 126
	statusNotFound    = 127
	statusSignal      = 128 // and the signal's number
)

// exitError is an error with its status. Without err, everything has been said.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit returns an error with that status.
func exit(status int, format string, args ...any) error {
	return &exitError{status: status, err: fmt.Errorf(format, args...)}
}

func usage(format string, args ...any) error { return exit(statusUsage, format, args...) }

// statusOf returns the status for an error.
func statusOf(err error) int {
	var own *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.status
	case isForbidden(err):
		return statusForbidden
	case errors.Is(err, storeurl.ErrInvalidURL), errors.Is(err, sqlstore.ErrSchema),
		errors.Is(err, sqlstore.ErrNoDatabase), errors.Is(err, sqlstore.ErrSettings):
		return statusConfig
	case errors.Is(err, core.ErrInvalidKey), errors.Is(err, core.ErrInvalidClaim), errors.Is(err, core.ErrInvalidOption),
		errors.Is(err, errors.ErrUnsupported), errors.Is(err, core.ErrWouldDeadlock):
		return statusUsage
	case errors.Is(err, redlock.ErrNotNew):
		return statusNo
	case errors.Is(err, driver.ErrForeign):
		return statusBug
	case errors.Is(err, core.ErrHeld), errors.Is(err, core.ErrTooManyWaiters):
		return statusHeld
	case errors.Is(err, core.ErrLeaseLost):
		return statusLost
	case errors.Is(err, core.ErrUnavailable), errors.Is(err, driver.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded):
		return statusUnavailable
	}
	return statusBug
}

// refusals are how servers say that an account may not do something: Redis, PostgreSQL, MySQL, SQLite,
// etcd, ZooKeeper and NATS. They have nothing in common but the text.
var refusals = []string{
	"NOPERM", "can't run this command", "NOAUTH", "WRONGPASS", "SQLSTATE 42501", "SQLSTATE 28", "Error 1142", "Error 1044", "Error 1045", "readonly database",
	"permission denied", "not authenticated", "authentication failed", "user name is empty", "permissions violation", "authorization violation", "Authorization Violation",
}

// isForbidden reports whether the store's server has refused the account.
func isForbidden(err error) bool {
	if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, sqlstore.ErrSchema) {
		return false
	}
	return slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(err.Error(), text) })
}
