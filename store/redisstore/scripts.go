package redisstore

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts, each a single atomic step on the server.
var (
	acquireScript  = script("acquire")
	releaseScript  = script("release")
	completeScript = script("complete")
	sealScript     = script("seal")
	inspectScript  = script("inspect")
	forceScript    = script("force")
	dropScript     = script("drop")
	renewScript    = redis.NewScript(source("renew"))
)

// script is one that begins with what the scripts share.
func script(name string) *redis.Script {
	return redis.NewScript(shared() + source(name))
}

func shared() string {
	return source("common") + source("holders") + source("line") + source("show")
}

func source(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // a name that is not in the binary: no program gets past its start
	}
	return string(text)
}
