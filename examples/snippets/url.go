package snippets

// snippet

import (
	"context"

	"github.com/keyturn/keyturn/core"
	_ "github.com/keyturn/keyturn/store/redisstore" // redis://, redis+sentinel://, redis+cluster://
	"github.com/keyturn/keyturn/store/storeurl"
)

func openEngine(ctx context.Context, url string) (*core.Engine, error) {
	store, err := storeurl.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return core.New(store)
}

// end snippet
