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
	sharingScript  = script("downgrade")
	renewScript    = redis.NewScript(source("renew"))
	raiseScript    = redis.NewScript(source("raise"))
)

// script is one that begins with what the scripts share, but for the plain case
// of acquire.
func script(name string) *redis.Script {
	return redis.NewScript(source("tokens") + source("grant") + plain(name) + source("memory") + source("entry") + shared() + source(name))
}

// plain is the short way for the case of a script that runs most.
func plain(name string) string {
	if name == "acquire" {
		return source("plain_acquire")
	}
	return ""
}

// grouped are the scripts that may be part of a group, and their names.
var grouped = map[*redis.Script]string{
	acquireScript: "acquire", releaseScript: "release", completeScript: "complete", renewScript: "renew",
}

// The scripts of plain calls: of one that leaves alone, and of many.
var (
	aloneAcquire = newSource(source("tokens") + source("alone_acquire") + source("grant") +
		source("memory") + source("entry") + shared() + source("words") + function("acquire", "local function acquire") +
		"return acquire(all_keys(KEYS[1], KEYS[2]), of_acquire(unpack(ARGV)))")
	aloneRelease = newSource(source("alone_release") + source("tokens") + source("grant") + source("entry") + source("hand") +
		"if mine and select(2, pcall(hand, KEYS[1], value, KEYS[2], ARGV[1])) == true then return 1 end\n" +
		source("memory") + shared() + source("words") + function("release", "local function release") +
		"return release(all_keys(KEYS[1], KEYS[2]), of_release(unpack(ARGV)))")
	group = newSource(groupSource("acquire", "release", "complete", "renew"))
)

// sourced is a script's text and its hash, as words of a command.
type sourced struct{ text, hash any }

func newSource(text string) sourced { return sourced{text, redis.NewScript(text).Hash()} }

// groupSource makes a function of every script, behind the part that most groups
// need none of them for.
func groupSource(names ...string) string {
	var b strings.Builder
	for _, part := range []string{"tokens", "grant", "memory", "entry", "hand", "group"} {
		b.WriteString(source(part))
	}
	b.WriteString(shared())
	b.WriteString(source("words"))
	b.WriteString("local ops = {}\n")
	for _, name := range names {
		b.WriteString(function(name, "function ops."+name))
	}
	b.WriteString(source("group_long"))
	return b.String()
}

// function is a script as a function. Its KEYS and ARGV are parameters then, which hide
// the globals of that name.
func function(name, head string) string {
	return head + "(KEYS, ARGV)\n" + plain(name) + source(name) + "\nend\n"
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
