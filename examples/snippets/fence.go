package snippets

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/middleware/asynq"
)

// snippet

// newCharges has exactly one charge per order in the database, although workers crash, leases are
// lost and tasks come twice. The tables are made by a migration: fence.Schema(fence.Postgres).
func newCharges(eng *core.Engine, db *sql.DB) (*lockasynq.Locks, error) {
	return lockasynq.New(eng, lockasynq.Once("charge", "charge:{payload.order}", fence.WithDatabase(db, fence.Postgres)))
}

func charge(ctx context.Context, task *asynq.Task) error {
	var order struct {
		Order string
		Cents int
	}
	if err := json.Unmarshal(task.Payload(), &order); err != nil {
		return err
	}
	tx, _ := fence.TxFrom(ctx) // it is committed when the handler has returned nil
	_, err := tx.ExecContext(ctx, `INSERT INTO charge VALUES ($1, $2)`, order.Order, order.Cents)
	return err
}

// end snippet
