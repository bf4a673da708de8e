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
	raiseScript    = redis.NewScript(source("raise"))
)

// script is one that begins with what the scripts share, but for the plain case
// of those that have one.
func script(name string) *redis.Script {
	return redis.NewScript(plain(name) + source("memory") + shared() + source(name))
}

// plain is the short way for the case of a script that runs most.
func plain(name string) string {
	switch name {
	case "acquire", "release":
		return source("plain_" + name)
	default:
		return ""
	}
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
