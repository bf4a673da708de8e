package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// opTimeout bounds each use of a connection. The caller's context does not: a driver may close
// the connection of a statement whose context ends, and callers give up often.
const opTimeout = 5 * time.Second

// do runs op by one of the workers, and again for up to opTimeout while somebody has locked a row of
// keys. It reports that op was not answered also if ctx ended before one was free, with an error that
// says why. late, if it is not nil, is called if op was not answered, when nothing is under way any more.
func (s *Store) do(ctx context.Context, by *workers, keys []string, op func(context.Context) error, late func()) (err error, answered bool) {
	pause := firstLockedPause
	for over := time.Now().Add(opTimeout); ; pause = min(2*pause, mostLockedPause) {
		err, answered = s.try(ctx, by, keys, op, late)
		if !answered || !isLocked(err) || time.Now().After(over) {
			return err, answered
		}
		if !waitloop.Sleep(ctx, pause/2+rand.N(pause)) {
			if late != nil {
				late()
			}
			return s.silence(ctx, keys), false
		}
	}
}

// The pauses between two attempts at a row that is locked. The worker does something else meanwhile.
const (
	firstLockedPause = 5 * time.Millisecond
	mostLockedPause  = 100 * time.Millisecond
)

// try is one attempt of do.
func (s *Store) try(ctx context.Context, by *workers, keys []string, op func(context.Context) error, late func()) (err error, answered bool) {
	leave, ok := s.enter(ctx, by, keys)
	if !ok {
		if late != nil {
			late()
		}
		return s.silence(ctx, keys), false
	}
	start := func(work func()) { by.run(s, work) }
	err, answered = waitloop.Await(ctx, start, func() error {
		defer leave()
		ctx, cancel := context.WithTimeout(s.hard, opTimeout)
		defer cancel()
		err := s.checked.at(ctx)
		if err == nil {
			err = s.file.check()
		}
		if err != nil {
			return err
		}
		err = op(ctx)
		s.stuck.learn(keys, err)
		if isLocked(err) {
			err = &lockedError{keys, err}
		}
		return err
	}, late)
	if !answered {
		err = s.silence(ctx, keys)
	}
	return err, answered
}

// enter waits until one of the workers is free, and for the turns of keys that are stuck.
func (s *Store) enter(ctx context.Context, by *workers, keys []string) (leave func(), ok bool) {
	for {
		taken, ok := s.stuck.enter(ctx, keys)
		if !ok {
			return nil, false
		}
		if !by.enter(ctx) {
			taken.leave()
			return nil, false
		}
		if len(taken) > 0 || len(s.stuck.among(keys)) == 0 {
			return func() { by.leave(); taken.leave() }, true
		}
		by.leave() // they have become stuck meanwhile
	}
}

// retries counts the attempts at an operation.
type retries struct {
	most   int // attempts that end with a connection of no use
	broken int
	pause  time.Duration
}

// maxPause is the longest pause between two attempts.
const maxPause = 100 * time.Millisecond

// tries begins an operation. Each connection of the pool that the store uses may turn out to be
// dead, and so may those that others return to it meanwhile.
func (s *Store) tries() *retries { return &retries{most: s.cfg.conns + 4, pause: time.Millisecond} }

// again reports whether to try once more after err. It pauses if others were in the way. A row that is
// locked is for [do], which leaves the connection to others meanwhile.
func (r *retries) again(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	switch judge(err) {
	case again:
	case broken, readOnly:
		if r.broken++; r.broken >= r.most {
			return false
		}
	default:
		return false
	}
	// The random part keeps two transactions from meeting again.
	pause := r.pause/2 + rand.N(r.pause)
	r.pause = min(2*r.pause, maxPause)
	return waitloop.Sleep(ctx, pause)
}

// connect takes a connection of the pool, to write or only to read. The caller calls back with the
// error of its last statement, or nil.
func (s *Store) connect(ctx context.Context, writes bool) (conn *sql.Conn, back func(error), err error) {
	conn, err = s.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	leave := func() {}
	if writes {
		leave = s.gate.enter(ctx)
	}
	return conn, func(err error) {
		defer leave()
		if err != nil && (judge(err) == broken || judge(err) == readOnly) {
			drop(conn)
		}
		_ = conn.Close() // it goes back to the pool
	}, nil
}

// drop closes a connection for good, instead of giving it back to the pool.
func drop(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
}

// exec runs one statement outside of a transaction, and repeats it as long as it is certain that
// it has not been carried out, or repeating does no harm.
func (s *Store) exec(ctx context.Context, query string, args ...any) error {
	for r := s.tries(); ; {
		_, err := s.execOnce(ctx, query, args)
		if err == nil || !r.again(ctx, err) {
			return err
		}
	}
}

func (s *Store) execOnce(ctx context.Context, query string, args []any) (sql.Result, error) {
	conn, back, err := s.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	query, args = s.d.bind(query, args)
	res, err := conn.ExecContext(ctx, query, args...)
	err = s.certain(ctx, conn, err)
	back(err)
	return res, err
}

// query runs one question outside of a transaction, and calls scan for each row. begin is called
// before each attempt.
func (s *Store) query(ctx context.Context, query string, args []any, begin func(), scan func(*sql.Rows) error) (err error) {
	for r := s.tries(); ; {
		if begin != nil {
			begin()
		}
		err = s.queryOnce(ctx, false, query, args, scan)
		if err == nil || !r.again(ctx, err) {
			return err
		}
	}
}

func (s *Store) queryOnce(ctx context.Context, writes bool, query string, args []any, scan func(*sql.Rows) error) error {
	conn, back, err := s.connect(ctx, writes)
	if err != nil {
		return err
	}
	query, args = s.d.bind(query, args)
	err = s.certain(ctx, conn, rowsOf(ctx, conn, query, args, scan))
	back(err)
	return err
}

var (
	// errLate says that an answer came after its context had ended.
	errLate = errors.New("sqlstore: the statement was given up before its answer came")
	// errAlone says that the replica may lack what was committed.
	errAlone = errors.New("sqlstore: somebody has cancelled the COMMIT's wait for the replica")
)

// certain makes an error of a success that a failover may forget. A PostgreSQL that waits for a replica
// reports success for a statement that is cancelled: by the driver, when ctx has ended, or by anybody else,
// of which the server warns.
func (s *Store) certain(ctx context.Context, conn *sql.Conn, err error) error {
	switch {
	case err != nil:
		return s.denied(err)
	case ctx.Err() != nil:
		return errLate
	case s.client != nil && ofDriver(conn, s.client.Warned):
		return errAlone
	}
	return nil
}

// denied names the user in the error for a permission that is missing.
func (s *Store) denied(err error) error {
	if codeOf(err) == deniedCode {
		return fmt.Errorf("user %q: %w", s.user, err)
	}
	return err
}

// ofDriver asks about the driver's connection.
func ofDriver(conn *sql.Conn, question func(any) bool) (yes bool) {
	_ = conn.Raw(func(c any) error {
		yes = question(c)
		return nil
	})
	return yes
}

// rowsOf calls scan for each row of a question.
func rowsOf(ctx context.Context, conn *sql.Conn, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		err := scan(rows)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errRow, err)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}
