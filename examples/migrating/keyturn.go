package migrating

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redisstore"
)

// snippet

func newEngine(client redis.UniversalClient, prefix string) (*core.Engine, error) {
	store, err := redisstore.New(client, redisstore.WithPrefix(prefix))
	if err != nil {
		return nil, err
	}
	return core.New(store)
}

func withKeyturn(ctx context.Context, eng *core.Engine, order string, charge work) error {
	return eng.Do(ctx, "order:"+order, charge) // renewed for as long as charge takes
}

// end snippet
