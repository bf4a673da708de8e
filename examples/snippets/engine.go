// Package snippets has the code of README.md, which compiles and is tested here. README.md
// contains the text between "// snippet" and "// end snippet" byte for byte;
// scripts/check-readme checks that.
package snippets

import (
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redisstore"
)

// snippet

// newEngine makes the locks that all processes on this Redis share. Call
// eng.Close(ctx) at SIGTERM, beside the server's shutdown.
func newEngine(client redis.UniversalClient) (*core.Engine, error) {
	store, err := redisstore.New(client)
	if err != nil {
		return nil, err
	}
	return core.New(store)
}

// end snippet
