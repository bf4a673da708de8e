package script

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts. Each is a single atomic step on the server.
var (
	acquireScript  = script("acquire")
	releaseScript  = script("release")
	completeScript = script("complete")
	sealScript     = script("seal")
	inspectScript  = script("inspect")
	forceScript    = script("force")
	dropScript     = script("drop")
	minHoldScript  = script("min_hold")
	sharingScript  = script("downgrade")
	renewScript    = redis.NewScript(source("renew"))
	advanceScript  = redis.NewScript(source("advance_version"))
)

// script returns the script name with the parts that scripts share in front of it. Acquire and
// complete have their plain cases in front of most of them.
func script(name string) *redis.Script { return redis.NewScript(scriptSource(name)) }

func scriptSource(name string) string {
	return source("tokens") + source("grant") + plain(name) + source("memory") + source("entry") + shared() + source(name)
}

// plain returns the short code for the case of a script that runs most often.
func plain(name string) string {
	switch name {
	case "acquire", "complete":
		return source("plain_" + name)
	}
	return ""
}

// grouped has the scripts that may be part of a group, and their names.
var grouped = map[*redis.Script]string{
	acquireScript: "acquire", releaseScript: "release", completeScript: "complete", renewScript: "renew", inspectScript: "inspect",
}

// The scripts of plain calls: of one call that leaves alone, and of many.
var (
	aloneAcquire = newSource(source("tokens") + source("alone_acquire") + source("grant") +
		source("memory") + source("entry") + shared() + source("words") + function("acquire", "local function acquire") +
		"return acquire(all_keys(KEYS[1], KEYS[2]), of_acquire(unpack(ARGV)))")
	aloneRelease = newSource(source("alone_release") + source("tokens") + source("grant") + source("entry") + source("hand") +
		"if mine and select(2, pcall(hand, KEYS[1], value, KEYS[2], ARGV[1])) == true then return 1 end\n" +
		source("memory") + shared() + source("words") + function("release", "local function release") +
		"return release(all_keys(KEYS[1], KEYS[2]), of_release(unpack(ARGV)))")
	group = newSource(groupSource("acquire", "release", "complete", "renew", "inspect"))
)

// sourced is a script's text and its hash, as words of a command.
type sourced struct{ text, hash any }

func newSource(text string) sourced { return sourced{text, redis.NewScript(text).Hash()} }

// groupSource makes a function of every script. The functions come behind the code that is
// enough for most groups, and then behind what is enough for most others.
func groupSource(names ...string) string {
	var b strings.Builder
	for _, part := range []string{"tokens", "memory", "group", "grant", "entry", "hand", "group_hand"} {
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

// function returns a script as a function. Its parameters are named KEYS and ARGV, so that they
// hide the globals of these names.
func function(name, head string) string {
	return head + "(KEYS, ARGV)\n" + plain(name) + source(name) + "\nend\n"
}

func shared() string {
	return source("common") + source("foreign") + source("turns") + source("holders") + source("line") + source("show")
}

func source(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the binary has no file of that name: no program gets past its start
	}
	return string(text)
}
