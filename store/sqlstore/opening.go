package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// missingCodes are for tables, columns and schemas that don't exist, and absentCodes for databases.
var (
	missingCodes = []string{"42P01", "42703", "3F000", "1146", "1054"}
	absentCodes  = []string{"3D000", "1049"}
	// poolerCodes are for a prepared statement that another session has.
	poolerCodes = []string{"26000", "42P05"}
)

// deniedCode is for a permission that is missing. PostgreSQL names the table and not the user, MariaDB both.
const deniedCode = "42501"

// sqliteError is for a table that isn't there, and for much else.
const sqliteError = 1

// hasCode reports whether err is a server's, with one of codes.
func hasCode(err error, codes []string) bool { return slices.Contains(codes, codeOf(err)) }

// isMissing reports whether err says that a table or a column does not exist.
func isMissing(err error) bool {
	if err == nil {
		return false
	}
	var code interface{ Code() int }
	if errors.As(err, &code) {
		return code.Code()&0xff == sqliteError && strings.Contains(err.Error(), "no such")
	}
	return hasCode(err, missingCodes) || strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such column")
}

// opening is the error of [New] and [Migrate] for one of the database's.
func opening(err error) error {
	var set *settingError
	switch {
	case errors.Is(err, ErrSchema), errors.As(err, &set):
		return err
	case hasCode(err, absentCodes):
		return fmt.Errorf("%w: %w", ErrNoDatabase, err)
	}
	return failure("open", "", err)
}

// settingError says which setting is wrong. It matches [ErrSettings].
type settingError struct{ name, value, fix string }

func (e *settingError) Error() string {
	return fmt.Sprintf("%v: %s is %q: %s", ErrSettings, e.name, e.value, e.fix)
}

func (e *settingError) Unwrap() error { return ErrSettings }
