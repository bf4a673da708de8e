package script

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts. Each is a single atomic step on the server.
var (
	acquireScript = script("acquire")
	releaseScript = script("release")
	sealScript    = script("seal")
	inspectScript = script("inspect")
	forceScript   = script("force")
	dropScript    = script("drop")
	minHoldScript = script("min_hold")
	sharingScript = script("downgrade")
	renewScript   = newScript(source("renew"))
	advanceScript = newScript(source("advance_version"))
)

// texts are all scripts by their hashes.
var texts = make(map[string]string)

func newScript(text string) *redis.Script {
	s := redis.NewScript(text)
	texts[s.Hash()] = text
	return s
}

// script returns the script name with the parts that scripts share in front of it.
func script(name string) *redis.Script {
	return newScript(source("tokens", "grant", "entry") + shared() + source(name))
}

// grouped has the scripts that may be part of a group, and their names.
var grouped = map[*redis.Script]string{
	acquireScript: "acquire", releaseScript: "release", renewScript: "renew", inspectScript: "inspect",
}

// The scripts of plain calls: of one call that leaves alone, and of many.
var (
	aloneAcquire = newSource(source("tokens", "alone_acquire", "grant", "entry") + shared() + source("words") +
		function("acquire", "local function acquire") + "return acquire(all_keys(KEYS[1], KEYS[2]), of_acquire(unpack(ARGV)))")
	aloneRelease = newSource(source("alone_release", "tokens", "grant", "entry", "hand") +
		"if mine and select(2, pcall(hand, KEYS[1], value, KEYS[2], ARGV[1])) == true then return 1 end\n" +
		shared() + source("words") + function("release", "local function release") +
		"return release(all_keys(KEYS[1], KEYS[2]), of_release(unpack(ARGV)))")
	group = newSource(groupSource("acquire", "release", "complete", "renew", "inspect"))
)

// sourced is a script's text and its hash, as words of a command.
type sourced struct{ text, hash any }

func newSource(text string) sourced { return sourced{text, newScript(text).Hash()} }

// groupSource makes a function of every script. The functions come behind the code that is
// enough for most groups, and then behind what is enough for most others.
func groupSource(names ...string) string {
	text := source("tokens", "group", "grant", "entry", "hand", "group_hand") + shared() + source("words") + "local ops = {}\n"
	for _, name := range names {
		text += function(name, "function ops."+name)
	}
	return text + source("group_long")
}

// function returns a script as a function. Its parameters are named KEYS and ARGV, so that they
// hide the globals of these names.
func function(name, head string) string {
	return head + "(KEYS, ARGV)\n" + source(name) + "\nend\n"
}

func shared() string { return source("common", "foreign", "turns", "holders", "line", "show") }

func source(names ...string) (all string) {
	for _, name := range names {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the binary has no file of that name: no program gets past its start
		}
		all += string(text)
	}
	return all
}
