//go:build unix

package snippets

import (
	"context"
	"os"
	"testing"

	"github.com/hibiken/asynq"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/sqltest"
)

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m).Run()) }

func TestFence(t *testing.T) {
	db := sqltest.Postgres(t).Open(t)
	statements, err := fence.Schema(fence.Postgres)
	must(t, err)
	for _, s := range append(statements, `CREATE TABLE charge (id TEXT, cents INT)`) {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time the store has lost its records
		locks, err := newCharges(engine(t), db)
		must(t, err)
		h := locks.Middleware(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			expectLease(t, ctx, "charge:7")
			return charge(ctx, task)
		}))
		for range 2 {
			if err := h.ProcessTask(t.Context(), asynq.NewTask("charge", []byte(`{"order":"7","cents":1999}`))); err != nil {
				t.Error(err)
			}
		}
	}
	var charges int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM charge`).Scan(&charges); err != nil || charges != 1 {
		t.Errorf("%d charges, %v", charges, err)
	}
}
