package dbtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestLostAnswers breaks the connection at each statement of each operation in turn, before the
// statement arrives and after it was carried out: COMMIT without an answer is one of them. The
// operation succeeds all the same, and has its effect once.
func TestLostAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		f := new(faulty)
		s := open(t, f.open(t, d), dialectOf(d))
		other := open(t, d.Open(t), dialectOf(d))
		for _, op := range operations {
			if testing.Short() && len(op.claims) > 1 {
				continue // transactions of many statements, and a connection for each that breaks
			}
			for _, after := range []bool{false, true} {
				for n := 1; ; n++ {
					more, err := op.try(t.Context(), s, other, f, n, after)
					if err != nil {
						t.Errorf("%s, broken at statement %d (after it: %v), %q: %v", op.name, n, after, f.broken(), err)
					}
					if !more {
						break
					}
					if n == 30 {
						t.Fatalf("%s has more than 30 statements", op.name)
					}
				}
			}
		}
	})
}

// operation is a call of a store. prepare gives it something to do, and check sees what came of it.
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
func (op operation) try(ctx context.Context, s, other driver.Store, f *faulty, n int, after bool) (more bool, err error) {
	f.breakAt(0, false)
	req := storetest.RequestFor(time.Minute, op.claims...)
	var g driver.Grant
	if op.held {
		if g, err = s.Acquire(ctx, req); err != nil {
			return false, err
		}
	}
	f.breakAt(n, after)
	err = op.do(ctx, s, &g, req)
	more = f.statements() > n
	f.breakAt(0, false)
	if err != nil {
		return more, err
	}
	for _, c := range op.claims {
		info, err := other.Inspect(ctx, c.Key)
		if err != nil {
			return more, err
		}
		held := len(info.Holders) == 1 && info.Holders[0].Owner == req.Owner && info.Holders[0].Token == g.Token
		switch {
		case op.holds && !held:
			return more, errors.New("the lease is not there")
		case !op.holds && len(info.Holders) > 0:
			return more, errors.New("the lease is still there")
		case op.records != (info.Record != nil):
			return more, errors.New("the record is not as it should be")
		}
	}
	if op.holds {
		err = other.Release(ctx, g)
	}
	if op.records {
		_, err = other.Forget(ctx, "k")
	}
	return more, err
}
