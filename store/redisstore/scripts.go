package redisstore

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/common.lua
var commonLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/complete.lua
var completeLua string

//go:embed lua/renew.lua
var renewLua string

// The scripts, each a single atomic step on the server.
var (
	acquireScript  = redis.NewScript(commonLua + acquireLua)
	releaseScript  = redis.NewScript(commonLua + releaseLua)
	completeScript = redis.NewScript(commonLua + completeLua)
	renewScript    = redis.NewScript(renewLua)
)
