package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
)

func TestMark(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		mark := func(id string, opts ...fence.MarkOption) (first bool, err error) {
			err = db.in(t, func(tx *transaction) (err error) {
				first, err = tx.Mark(bounded(t), id, opts...)
				return err
			})
			return first, err
		}
		tx := db.begin(t)
		if first, err := tx.Mark(bounded(t), "a"); !first || err != nil {
			t.Error(first, err)
		}
		must(t, tx.Rollback()) // as if it had never been
		for i, want := range []bool{true, false} {
			for _, id := range []string{"a", "A", "a ", "a\x00", "{ä}"} { // no collation makes two of them one
				if first, err := mark(id); first != want || err != nil {
					t.Errorf("%q, time %d: %v, %v", id, i+1, first, err)
				}
			}
		}
		one, two := fence.WithFingerprint([]byte("one")), fence.WithFingerprint([]byte("two"))
		for i, c := range []struct {
			id    string
			opts  []fence.MarkOption
			first bool
			want  error
		}{
			{"b", []fence.MarkOption{one}, true, nil},
			{"b", []fence.MarkOption{one}, false, nil},
			{"b", nil, false, nil},
			{"b", []fence.MarkOption{two}, false, core.ErrFingerprintMismatch},
			{"a", []fence.MarkOption{two}, false, nil}, // a mark without a fingerprint
		} {
			if first, err := mark(c.id, c.opts...); first != c.first || !errors.Is(err, c.want) {
				t.Errorf("content %d: %v, %v", i, first, err)
			}
		}
		_, err := db.once(t, "b", func(context.Context, *sql.Tx) ([]byte, error) { return nil, nil }, two)
		expect(t, err, core.ErrFingerprintMismatch)
	})
}

// A mark that another transaction has made waits for the end of it, and then counts or not.
func TestMarkWaitsForTheFirst(t *testing.T) {
	onEachLevel(t, func(t *testing.T, db *database) {
		for id, commit := range map[string]bool{"committed": true, "rolled back": false} {
			one := db.begin(t)
			if first, err := one.Mark(bounded(t), id); !first || err != nil {
				t.Error(first, err)
			}
			var first bool
			err := waits(t, func() error {
				return db.in(t, func(tx *transaction) (err error) {
					first, err = tx.Mark(bounded(t), id)
					return err
				})
			}, func() {
				if commit {
					must(t, one.Commit())
				} else {
					must(t, one.Rollback())
				}
			})
			if err != nil || first == commit {
				t.Errorf("%s: the second was first: %v, %v", id, first, err)
			}
		}
	})
}

// once is fence.Once at the database's level.
func (db *database) once(t testing.TB, id string, fn func(context.Context, *sql.Tx) ([]byte, error), opts ...fence.OnceOption) (core.Outcome, error) {
	t.Helper()
	return fence.Once(bounded(t), db.DB, db.dialect, id, fn, append(opts, fence.WithIsolation(db.level))...)
}

func TestOnceAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		for name, c := range map[string]struct {
			result []byte
			err    error
			kept   bool
		}{
			"nothing": {nil, nil, true},
			"empty":   {[]byte{}, nil, true},
			"bytes":   {[]byte("\x00ab\xff"), nil, true},
			"large":   {make([]byte, 1<<20), nil, true},
			"skipped": {[]byte("streamed"), core.ErrSkipResult, false},
		} {
			fn := func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				if found, ok := fence.TxFrom(ctx); !ok || found != tx {
					t.Error("the context has no transaction")
				}
				return c.result, c.err
			}
			out, err := db.once(t, name, fn)
			if err != nil || out.Duplicate || string(out.Result) != string(c.result) || out.ResultNotKept == c.kept {
				t.Errorf("%s: %v, %v", name, out.Duplicate, err)
			}
			out, err = db.once(t, name, fn)
			if !out.Duplicate || out.ResultNotKept == c.kept {
				t.Errorf("%s again: %v, %v", name, out.Duplicate, out.ResultNotKept)
			}
			if c.kept && (err != nil || string(out.Result) != string(c.result)) || !c.kept && !errors.Is(err, core.ErrResultNotKept) {
				t.Errorf("%s again: %d bytes, %v", name, len(out.Result), err)
			}
		}
	})
}

// What fails leaves neither its effect nor a mark behind.
func TestOnceAfterAFailure(t *testing.T) {
	onEachClient(t, func(t *testing.T, db *database, driver string) {
		db.run(t, `CREATE TABLE effect (n INT)`)
		c := db.connect(t, driver, db.DSN(), func() {})
		effect := func(ctx context.Context) error { return c.insert(ctx, `INSERT INTO effect VALUES (1)`) }
		for name, once := range bothWays(t, c) {
			own := errors.New("own")
			expect(t, second(once(bounded(t), name, func(ctx context.Context) ([]byte, error) { return nil, errors.Join(effect(ctx), own) })), own)
			func() {
				defer func() { _ = recover() }()
				_, _ = once(bounded(t), name, func(ctx context.Context) ([]byte, error) {
					must(t, effect(ctx))
					panic("in the middle")
				})
			}()
			ctx, cancel := context.WithCancel(bounded(t))
			expect(t, second(once(ctx, name, func(ctx context.Context) ([]byte, error) {
				defer cancel() // the lease is lost, or the client has gone
				return nil, effect(ctx)
			})), context.Canceled)
			db.effects(t, 0)
			must(t, second(once(bounded(t), name, func(ctx context.Context) ([]byte, error) { return nil, effect(ctx) })))
			db.effects(t, 1)
			db.run(t, `DELETE FROM effect`)
		}
	})
}

func TestSweep(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		must(t, db.in(t, func(tx *transaction) error {
			for id := range 1200 {
				if _, err := tx.Mark(bounded(t), fmt.Sprint(id)); err != nil {
					return err
				}
			}
			return errors.Join(tx.Lock(bounded(t), "lock"), tx.Check(bounded(t), "resource", 1))
		}))
		sweep := func(olderThan time.Duration) int64 {
			n, err := fence.Sweep(bounded(t), db.DB, db.dialect, olderThan)
			must(t, err)
			return n
		}
		if n := sweep(time.Hour); n != 0 {
			t.Errorf("%d marks are younger than an hour", n)
		}
		const twoDays = 48 * 3600 * 1000
		db.run(t, fmt.Sprintf(`UPDATE keyturn_mark SET at = at - %d`, twoDays), fmt.Sprintf(`UPDATE keyturn_row SET at = at - %d`, twoDays))
		must(t, db.in(t, func(tx *transaction) error {
			_, err := tx.Mark(bounded(t), "new")
			return err
		}))
		if n := sweep(24 * time.Hour); n != 1200 {
			t.Errorf("%d old marks of 1200 were deleted", n)
		}
		for table, want := range map[string]int64{"mark": 1, "row": 0, "fence": 1} {
			if n := db.number(t, `SELECT count(*) FROM keyturn_`+table); n != want {
				t.Errorf("%d rows of keyturn_%s are left, want %d", n, table, want)
			}
		}
	})
}
