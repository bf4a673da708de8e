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
	acquireScript  = script("acquire", source("plain_acquire"))
	releaseScript  = script("release")
	completeScript = script("complete", source("plain_complete"))
	sealScript     = script("seal")
	inspectScript  = script("inspect")
	forceScript    = script("force")
	dropScript     = script("drop")
	minHoldScript  = script("min_hold")
	sharingScript  = script("downgrade")
	renewScript    = newScript(source("renew"))
	advanceScript  = newScript(source("advance_version"))
)

// texts are all scripts by their hashes.
var texts = make(map[string]string)

func newScript(text string) *redis.Script {
	s := redis.NewScript(text)
	texts[s.Hash()] = text
	return s
}

// script returns the script name with the parts that scripts share in front of it, and in front of most of
// them the short code for the case that runs most often, if it has one.
func script(name string, plain ...string) *redis.Script {
	return newScript(source("tokens") + source("grant") + strings.Join(plain, "") + source("memory") + source("entry") + shared() + source(name))
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

func newSource(text string) sourced { return sourced{text, newScript(text).Hash()} }

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
	return head + "(KEYS, ARGV)\n" + source(name) + "\nend\n"
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
