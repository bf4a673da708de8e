package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/checktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noConnector is a database that must not be asked.
type noConnector struct{ t *testing.T }

func (c noConnector) Driver() driver.Driver { return nil }

func (c noConnector) Connect(context.Context) (driver.Conn, error) {
	c.t.Error("I/O before the input was checked")
	return nil, driver.ErrBadConn
}

func newDB(t *testing.T) *sql.DB {
	db := sql.OpenDB(noConnector{t})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// preparedPool and preparedTx are like GORM's wrappers that cache prepared statements.
type preparedPool struct{ fence.Tx }

func (preparedPool) GetDBConn() (*sql.DB, error) { return nil, nil }

type preparedTx struct{ preparedPool }

func (preparedTx) Commit() error { return nil }

func TestAPoolIsNoTransaction(t *testing.T) {
	db := newDB(t)
	ctx := t.Context()
	for name, tx := range map[string]fence.Tx{
		"nil":    nil,
		"nil Tx": (*sql.Tx)(nil),
		"sql.DB": db,
		"sqlx":   struct{ *sql.DB }{db},
		"gorm":   preparedPool{db},
	} {
		g := fence.On(tx, fence.Postgres)
		row := fence.Row{Table: "t", IDColumn: "id", TokenColumn: "token"}
		for i, err := range []error{g.Check(ctx, "r", 1), g.Claim(ctx, row, 1), g.Lock(ctx, "n"), checktest.ErrorOf(g.Mark(ctx, "id"))} {
			checktest.WantIs(t, fmt.Sprint(name, ", method ", i), err, fence.ErrNoTransaction)
		}
	}
	if err := fence.On(preparedTx{preparedPool{db}}, fence.Postgres).Check(ctx, "", 1); errors.Is(err, fence.ErrNoTransaction) {
		t.Error("GORM's transaction was refused")
	}
}

func TestBadInputIsRefusedBeforeIO(t *testing.T) {
	ctx := t.Context()
	on := func(d fence.Dialect, opts ...fence.Option) *fence.Guard {
		return fence.On(preparedTx{preparedPool{newDB(t)}}, d, opts...)
	}
	g := on(fence.Postgres)
	mark := func(id string, opts ...fence.MarkOption) error { return checktest.ErrorOf(g.Mark(ctx, id, opts...)) }
	claim := func(table, id, token string) error {
		return g.Claim(ctx, fence.Row{Table: table, IDColumn: id, TokenColumn: token}, 1)
	}
	nothing := func(context.Context, *sql.Tx) ([]byte, error) { return nil, nil }
	once := func(db *sql.DB, d fence.Dialect, id string, fn func(context.Context, *sql.Tx) ([]byte, error), opts ...fence.OnceOption) error {
		return checktest.ErrorOf(fence.Once(ctx, db, d, id, fn, opts...))
	}
	schema := func(d fence.Dialect, prefix string) error {
		return checktest.ErrorOf(fence.Schema(d, fence.WithTables(prefix)))
	}
	for name, c := range map[string]struct{ err, want error }{
		"no resource":          {g.Check(ctx, "", 1), core.ErrInvalidKey},
		"a long resource":      {g.Check(ctx, strings.Repeat("x", 513), 1), core.ErrInvalidKey},
		"token 0":              {g.Check(ctx, "r", 0), core.ErrNotHeld},
		"a token over bigint":  {g.Check(ctx, "r", 1<<63), core.ErrInvalidOption},
		"no lease":             {g.CheckLease(ctx, "r"), core.ErrNotHeld},
		"no dialect":           {on(0).Check(ctx, "r", 1), core.ErrInvalidOption},
		"no name of a lock":    {g.Lock(ctx, ""), core.ErrInvalidKey},
		"no time for a lock":   {g.Lock(ctx, "a", fence.Within(0)), core.ErrInvalidOption},
		"a nil option, lock":   {g.Lock(ctx, "a", nil), core.ErrInvalidOption},
		"no names of locks":    {checktest.ErrorOf(g.LockAny(ctx)), core.ErrInvalidOption},
		"no such dialect":      {on(4).Lock(ctx, "r"), core.ErrInvalidOption},
		"SQL in the prefix":    {on(fence.MySQL, fence.WithTables(`a";--`)).Check(ctx, "r", 1), core.ErrInvalidOption},
		"a long prefix":        {on(fence.MySQL, fence.WithTables(strings.Repeat("x", 41))).Check(ctx, "r", 1), core.ErrInvalidOption},
		"SQL as table":         {claim(`account" --`, "id", "token"), core.ErrInvalidOption},
		"four parts":           {claim("a.b.c.d", "id", "token"), core.ErrInvalidOption},
		"a digit first":        {claim("1a", "id", "token"), core.ErrInvalidOption},
		"a dot in a column":    {claim("a", "a.id", "token"), core.ErrInvalidOption},
		"a question mark":      {claim("a", "id", "token?"), core.ErrInvalidOption},
		"no column":            {claim("a", "id", ""), core.ErrInvalidOption},
		"no mark":              {mark(""), core.ErrInvalidKey},
		"a long fingerprint":   {mark("a", fence.WithFingerprint(make([]byte, 256))), core.ErrInvalidOption},
		"a nil option":         {mark("a", nil), core.ErrInvalidOption},
		"once, no database":    {once(nil, fence.MySQL, "a", nothing), core.ErrInvalidOption},
		"once, no dialect":     {once(newDB(t), 0, "a", nothing), core.ErrInvalidOption},
		"once, no id":          {once(newDB(t), fence.MySQL, "", nothing), core.ErrInvalidKey},
		"once, no function":    {once(newDB(t), fence.MySQL, "a", nil), core.ErrInvalidOption},
		"once, no attempts":    {once(newDB(t), fence.MySQL, "a", nothing, fence.WithAttempts(0)), core.ErrInvalidOption},
		"once, no such level":  {once(newDB(t), fence.MySQL, "a", nothing, fence.WithIsolation(sql.LevelLinearizable)), core.ErrInvalidOption},
		"sweep everything":     {checktest.ErrorOf(fence.Sweep(ctx, newDB(t), fence.SQLite, 0)), core.ErrInvalidOption},
		"schema of no dialect": {schema(0, "a_"), core.ErrInvalidOption},
		"schema with SQL":      {schema(fence.SQLite, "a b"), core.ErrInvalidOption},
		"optimistic":           {fence.Optimistic(ctx, func(context.Context) error { return nil }, fence.WithAttempts(-1)), core.ErrInvalidOption},
		"nothing to try":       {fence.Optimistic(ctx, nil), core.ErrInvalidOption},
	} {
		checktest.WantIs(t, name, c.err, c.want)
	}
	checktest.WantIs(t, "a schema before the prefix", schema(fence.Postgres, "im.keyturn_"), nil)
}

// asked is a pool that notes for how many milliseconds Sweep asks.
type asked struct {
	fence.Pool
	ms []any
}

func (p *asked) Exec(_ context.Context, _ string, args ...any) (int64, error) {
	p.ms = append(p.ms, args...)
	return 0, nil
}

// A row of a lock may be an hour older than what it says. What is younger than asked for is never deleted.
func TestSweepOfShortAndLongTimes(t *testing.T) {
	const hour = 3_600_000
	for d, ms := range map[time.Duration]int64{1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, core.Forever: int64(core.Forever/time.Millisecond) + 1} {
		p := &asked{}
		if _, err := fence.SweepThrough(t.Context(), p, fence.Postgres, d); err != nil || fmt.Sprint(p.ms) != fmt.Sprint([]int64{ms, ms + hour}) {
			t.Errorf("%v: %v, %v", d, p.ms, err)
		}
	}
}

// silent is a pool, and its one transaction, whose COMMIT has no answer. Then nobody gets in.
type silent struct {
	fence.Transaction
	begun int
}

func (p *silent) Begin(context.Context, sql.IsolationLevel) (fence.Transaction, error) {
	if p.begun++; p.begun > 1 {
		return nil, errors.New("connection refused")
	}
	return p, nil
}

func (*silent) Exec(context.Context, string, ...any) (int64, error) { return 1, nil }
func (*silent) In(ctx context.Context) context.Context              { return ctx }
func (*silent) Commit(context.Context) error                        { return io.ErrUnexpectedEOF }
func (*silent) End(context.Context, bool)                           {}

// However few attempts there are, and however soon each ends, the outcome is asked for.
func TestOnceAsksForTheOutcome(t *testing.T) {
	for _, attempts := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := fence.OnceThrough(t.Context(), &silent{}, fence.Postgres, "id", func(context.Context) ([]byte, error) { return nil, nil }, fence.WithAttempts(attempts))
			if !errors.Is(err, core.ErrOutcomeUnknown) || time.Since(began) != 5*time.Second {
				t.Errorf("%d attempts: %v after %v", attempts, err, time.Since(began))
			}
		})
	}
}

// state is an error as PostgreSQL's drivers make them.
type state string

func (s state) Error() string    { return "database is locked" } // what it says does not count
func (s state) SQLState() string { return string(s) }

func TestRetryable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{fence.ErrRetry, true},
		{fence.ErrStale, false},
		{sql.ErrNoRows, false},
		{state("40001"), true},
		{state("40P01"), true},
		{state("55P03"), true},
		{state("23505"), false},
		{errors.New("Error 1213 (40001): Deadlock found when trying to get lock"), true},
		{errors.New("Error 1205: Lock wait timeout exceeded"), true}, // as older versions write it
		{errors.New("Error 1020 (HY000): Record has changed since last read"), true},
		{errors.New("Error 1062 (23000): Duplicate entry 'Error 1213' for key"), false},
		{errors.New("Error 12130 (HY000): another"), false},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), true},
		{errors.New("database table is locked"), true},
		{fmt.Errorf("in a wrapper: %w", state("40001")), true},
		{fmt.Errorf("several: %w", errors.Join(sql.ErrNoRows, state("40001"))), true},
	} {
		if got := fence.Retryable(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

type rows int64

func (rows) LastInsertId() (int64, error)   { return 0, nil }
func (n rows) RowsAffected() (int64, error) { return int64(n), nil }

func TestWritten(t *testing.T) {
	own := errors.New("own")
	for _, c := range []struct {
		res  sql.Result
		err  error
		want error
	}{
		{rows(1), nil, nil},
		{rows(2), nil, nil},
		{rows(0), nil, fence.ErrStale},
		{nil, own, own},
		{nil, state("40P01"), fence.ErrRetry},
	} {
		checktest.WantIs(t, fmt.Sprint(c.res, ", ", c.err), fence.Written(c.res, c.err), c.want)
	}
}

func TestOptimistic(t *testing.T) {
	own := errors.New("own")
	stale := &fence.StaleError{Resource: "r", Token: 1, Seen: 2}
	for name, c := range map[string]struct {
		errs  []error // of the tries; the last one for all further tries
		tries int
		want  error
	}{
		"success":          {[]error{nil}, 1, nil},
		"another version":  {[]error{fence.ErrStale, fence.ErrStale, nil}, 3, nil},
		"a deadlock":       {[]error{state("40P01"), nil}, 2, nil},
		"an own error":     {[]error{own}, 1, own},
		"a smaller token":  {[]error{stale}, 1, fence.ErrStale},
		"always a version": {[]error{fence.ErrStale}, 5, fence.ErrStale},
		"always deadlocks": {[]error{state("40P01")}, 5, fence.ErrRetry},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := fence.Optimistic(t.Context(), func(context.Context) error {
				tries++
				return c.errs[min(tries, len(c.errs))-1]
			}, fence.WithAttempts(5))
			if !errors.Is(err, c.want) || tries != c.tries {
				t.Errorf("%s: %v after %d tries, want %v after %d", name, err, tries, c.want, c.tries)
			}
		})
	}
}

func TestOptimisticEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := fence.Optimistic(ctx, func(context.Context) error { return fence.ErrStale }, fence.WithAttempts(1_000_000))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fence.ErrStale) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
