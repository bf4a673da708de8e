package fencetest

import (
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/keyturn/keyturn/fence"
)

// What sqlx, bun and GORM call a transaction is one, and what they call a database is none.
func TestTransactionsOfOthers(t *testing.T) {
	db := newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault)
	ctx := bounded(t)
	id := 0
	try := func(name string, pool, tx fence.Tx, commit func() error) {
		t.Helper()
		id++
		_, err := fence.On(pool, fence.Postgres).Mark(ctx, name)
		expect(t, err, fence.ErrNoTransaction)
		first, err := fence.On(tx, fence.Postgres).Mark(ctx, name)
		if !first || err != nil {
			t.Errorf("%s: %v, %v", name, first, err)
		}
		must(t, commit())
		if n := db.number(t, `SELECT count(*) FROM keyturn_mark`); n != int64(id) {
			t.Errorf("%s: %d marks, want %d", name, n, id)
		}
	}

	x := sqlx.NewDb(db.DB, "pgx")
	xtx, err := x.BeginTxx(ctx, nil)
	must(t, err)
	defer xtx.Rollback()
	try("sqlx", x, xtx, xtx.Commit)

	b := bun.NewDB(db.DB, pgdialect.New())
	btx, err := b.BeginTx(ctx, nil)
	must(t, err)
	defer btx.Rollback()
	try("bun", b, btx.Tx, btx.Commit)

	for name, prepared := range map[string]bool{"gorm": false, "gorm with prepared statements": true} {
		g, err := gorm.Open(postgres.New(postgres.Config{Conn: db.DB}), &gorm.Config{PrepareStmt: prepared})
		must(t, err)
		gtx := g.WithContext(ctx).Begin()
		must(t, gtx.Error)
		try(name, g.Statement.ConnPool, gtx.Statement.ConnPool, func() error { return gtx.Commit().Error })
	}
}
