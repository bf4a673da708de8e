package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// opTimeout bounds each use of a connection. The caller's context does not: a driver may close
// the connection of a statement whose context ends, and callers give up often.
const opTimeout = 5 * time.Second

// do runs op with a place in room, and again for up to opTimeout while somebody has locked a row of
// keys. It reports that op was not answered also if ctx ended before there was a place. late, if it is
// not nil, is called if op was not answered, when nothing is under way any more.
func do[T any](ctx context.Context, s *Store, room *room, keys []string, op func(context.Context) (T, error), late func()) (value T, err error, answered bool) {
	pause := firstLockedPause
	for over := time.Now().Add(opTimeout); ; pause = min(2*pause, mostLockedPause) {
		value, err, answered = try(ctx, s, room, keys, op, late)
		if !answered || !isLocked(err) || time.Now().After(over) {
			return value, err, answered
		}
		if !waitloop.Sleep(ctx, pause/2+rand.N(pause)) {
			if late != nil {
				late()
			}
			return value, nil, false
		}
	}
}

// The pauses between two attempts at a row that is locked. They are outside of the room.
const (
	firstLockedPause = 5 * time.Millisecond
	mostLockedPause  = 100 * time.Millisecond
)

// try is one attempt of do.
func try[T any](ctx context.Context, s *Store, room *room, keys []string, op func(context.Context) (T, error), late func()) (value T, err error, answered bool) {
	leave, ok := s.enter(ctx, room, keys)
	if !ok {
		if late != nil {
			late()
		}
		return value, nil, false
	}
	start := func(work func()) { room.run(s, work) }
	return waitloop.Await(ctx, start, func() (T, error) {
		defer leave()
		ctx, cancel := context.WithTimeout(s.hard, opTimeout)
		defer cancel()
		if err := s.looked.at(ctx); err != nil {
			var none T
			return none, err
		}
		value, err := op(ctx)
		s.stuck.learn(keys, err)
		if isLocked(err) {
			err = &lockedError{keys, err}
		}
		return value, err
	}, late)
}

// enter waits for a place in room, and for the turns of keys that are stuck.
func (s *Store) enter(ctx context.Context, room *room, keys []string) (leave func(), ok bool) {
	for {
		taken, ok := s.stuck.enter(ctx, keys)
		if !ok {
			return nil, false
		}
		if !room.enter(ctx) {
			taken.leave()
			return nil, false
		}
		if len(taken) > 0 || len(s.stuck.among(keys)) == 0 {
			return func() { room.leave(); taken.leave() }, true
		}
		room.leave() // they have become stuck meanwhile
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
		leave = s.door.enter(ctx)
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
func (s *Store) exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	for r := s.tries(); ; {
		affected, err = s.execOnce(ctx, query, args)
		if err == nil || !r.again(ctx, err) {
			return affected, err
		}
	}
}

func (s *Store) execOnce(ctx context.Context, query string, args []any) (int64, error) {
	res, err := s.execResult(ctx, query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s *Store) execResult(ctx context.Context, query string, args []any) (sql.Result, error) {
	conn, back, err := s.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	query, args = s.d.bind(query, args)
	res, err := conn.ExecContext(ctx, query, args...)
	err = inTime(ctx, err)
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
	err = inTime(ctx, rowsOf(ctx, conn, query, args, scan))
	back(err)
	return err
}

// errLate says that an answer came after its context had ended.
var errLate = errors.New("sqlstore: the statement was given up before its answer came")

// inTime makes an error of a success that came after ctx had ended. The driver may have cancelled the
// statement by then, and a PostgreSQL that waits for a replica reports success for it.
func inTime(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return errLate
	}
	return err
}

// rowsOf calls scan for each row of a question.
func rowsOf(ctx context.Context, conn *sql.Conn, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
