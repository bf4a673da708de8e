package script

import (
	"embed"
	"strings"

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
	return redis.NewScript(plain(name) + source("memory") + source("entry") + shared() + source(name))
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

// grouped are the scripts that may be part of a group, and their names.
var grouped = map[*redis.Script]string{
	acquireScript: "acquire", releaseScript: "release", completeScript: "complete", renewScript: "renew",
}

var (
	groupText     = groupSource("acquire", "release", "complete", "renew")
	groupHash any = redis.NewScript(groupText).Hash()
)

// groupSource makes a function of every script, behind the part that most groups
// need none of them for. Its KEYS and ARGV are parameters then, which hide the
// globals of that name.
func groupSource(names ...string) string {
	var b strings.Builder
	b.WriteString(source("memory"))
	b.WriteString(source("entry"))
	b.WriteString(source("group"))
	b.WriteString(shared())
	b.WriteString("local ops = {}\n")
	for _, name := range names {
		b.WriteString("function ops." + name + "(KEYS, ARGV)\n")
		b.WriteString(plain(name))
		b.WriteString(source(name))
		b.WriteString("\nend\n")
	}
	b.WriteString(source("group_long"))
	return b.String()
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
