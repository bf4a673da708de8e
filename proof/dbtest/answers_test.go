package dbtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestLostAnswers breaks the connection at each statement of each operation in turn, before the
// statement arrives and after it was carried out: COMMIT without an answer is one of them. The
// operation succeeds all the same, and has its effect once.
func TestLostAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		f := new(sqltest.Faults)
		s := open(t, f.Open(t, d), dialectOf(d))
		other := open(t, d.Open(t), dialectOf(d))
		for _, op := range operations {
			if testing.Short() && len(op.claims) > 1 {
				continue // transactions of many statements, and a connection for each that breaks
			}
			for _, after := range []bool{false, true} {
				for n := 1; op.try(t, s, other, f, n, after); n++ {
					if n == 30 {
						t.Fatalf("%s has more than 30 statements", op.name)
					}
				}
			}
		}
	})
}

// operation is a call of a store.
type operation struct {
	name    string
	claims  []driver.Claim
	held    bool // it is about a lease
	do      func(context.Context, driver.Store, *driver.Grant, driver.Request) error
	holds   bool // afterwards the claims are held
	records bool // and a record is there
}

var operations = []operation{
	{name: "acquire", claims: plain, do: acquire, holds: true},
	{name: "acquire shared", claims: []driver.Claim{driver.Shared("k")}, do: acquire, holds: true},
	{name: "acquire a set", claims: set, do: acquire, holds: true},
	{name: "release", claims: plain, held: true, do: release},
	{name: "release a set", claims: set, held: true, do: release},
	{name: "renew", claims: plain, held: true, do: renew, holds: true},
	{name: "renew a set", claims: set, held: true, do: renew, holds: true},
	{name: "complete", claims: plain, held: true, records: true, do: func(ctx context.Context, s driver.Store, g *driver.Grant, _ driver.Request) error {
		return s.Complete(ctx, *g, driver.Record{Result: []byte("done")}, time.Minute)
	}},
	{name: "forget", claims: plain, do: func(ctx context.Context, s driver.Store, _ *driver.Grant, _ driver.Request) error {
		_, err := s.AdvanceVersion(ctx, "k", 1, time.Minute)
		if had, wrong := s.Forget(ctx, "k"); !had {
			err = errors.Join(err, wrong, errors.New("there was nothing to forget"))
		}
		return err
	}},
}

func acquire(ctx context.Context, s driver.Store, g *driver.Grant, req driver.Request) (err error) {
	*g, err = s.Acquire(ctx, req)
	return err
}

func release(ctx context.Context, s driver.Store, g *driver.Grant, _ driver.Request) error {
	return s.Release(ctx, *g)
}

func renew(ctx context.Context, s driver.Store, g *driver.Grant, _ driver.Request) error {
	return s.Renew(ctx, []driver.Grant{*g})[0]
}

var (
	plain = []driver.Claim{driver.Exclusive("k")}
	set   = []driver.Claim{driver.Exclusive("k"), driver.Shared("l")}
)

// try runs the operation with the connection broken at statement n. more: it has at least n
// statements.
func (op operation) try(t *testing.T, s, other driver.Store, f *sqltest.Faults, n int, after bool) (more bool) {
	t.Helper()
	f.BreakAt(0, false)
	req := storetest.RequestFor(time.Minute, op.claims...)
	var g driver.Grant
	if op.held {
		g = take(t, s, req)
	}
	f.BreakAt(n, after)
	err := op.do(t.Context(), s, &g, req)
	more = f.Statements() > n
	f.BreakAt(0, false)
	for _, c := range op.claims {
		info, asked := other.Inspect(t.Context(), c.Key)
		must(t, asked)
		held := len(info.Holders) == 1 && info.Holders[0].Owner == req.Owner && info.Holders[0].Token == g.Token
		if err != nil || held != op.holds || !held && len(info.Holders) > 0 || op.records != (info.Record != nil) {
			t.Fatalf("%s, broken at statement %d (after it: %v), %q: %v, and then there is %+v", op.name, n, after, f.Broken(), err, info)
		}
	}
	if op.holds {
		must(t, other.Release(t.Context(), g))
	}
	if op.records {
		must(t, checktest.ErrorOf(other.Forget(t.Context(), "k")))
	}
	return more
}
