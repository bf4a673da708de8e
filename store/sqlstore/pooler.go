package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// poolerAdvice says how the driver of err keeps no prepared statements.
func poolerAdvice(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && strings.HasPrefix(fmt.Sprintf("%T", state), "*pgconn.") {
		return "pgx: put default_query_exec_mode=exec into the DSN"
	}
	return "see the driver's settings for poolers"
}

// examinePrepared prepares a statement over two connections. If a pooler leads both to the same one of the server, the
// second finds a statement of the first, as the next process would.
func (s *Store) examinePrepared(ctx context.Context) driver.Finding {
	f := driver.Finding{About: "prepared statements", Found: "ok"}
	if s.db.Stats().MaxOpenConnections == 1 {
		return f // there is no second one
	}
	ctx, cancel := context.WithTimeout(ctx, listenTime) // the program may have all connections in use
	defer cancel()
	for range 2 {
		conn, back, err := s.connect(ctx, false)
		if err != nil {
			return f // other findings say so
		}
		defer back(nil)
		err = rowsOf(ctx, conn, "SELECT $1::int AS keyturn_examines", []any{1}, func(*sql.Rows) error { return nil })
		if err != nil && hasCode(err, poolerCodes) {
			f.Found, f.Risk, f.Advice = "", failure("examine", "", err).Error(), poolerAdvice(err)
			return f
		}
	}
	return f
}
