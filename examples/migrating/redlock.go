package migrating

import (
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redlock"
)

// snippet

func newRedlockEngine(nodes []*redis.Client) (*core.Engine, error) {
	store, err := redlock.New(nodes, redlock.WithPrefix("")) // the nodes of redsync.New
	if err != nil {
		return nil, err
	}
	return core.New(store)
}

// end snippet
