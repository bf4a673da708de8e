package script

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// Script is a Lua script, and the name under which a server keeps it.
type Script struct {
	Text, SHA string
}

var (
	//go:embed lua/common.lua
	common string
	//go:embed lua/vote.lua
	vote string
	//go:embed lua/refuse.lua
	refuse string
	//go:embed lua/shown.lua
	shown string
	//go:embed lua/seal.lua
	seal string
	//go:embed lua/release.lua
	release string
	//go:embed lua/renew.lua
	renew string
	//go:embed lua/force.lua
	force string
	//go:embed lua/show.lua
	show string
	//go:embed lua/mark.lua
	mark string
	//go:embed lua/probe.lua
	probe string
)

// The scripts. The comment at the head of each file has its keys, arguments and reply.
var (
	Vote    = alone(vote + shown + refuse)
	Seal    = with(seal)
	Release = with(release)
	Renew   = with(renew)
	Force   = with(shown + force)
	Show    = with(shown + show)
	Mark    = with(mark)
	Probe   = alone(probe)
)

func with(text string) *Script { return alone(common + "\n" + text) }

// alone makes a script that needs nothing of common.lua. To define the functions there takes longer
// than a vote.
func alone(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Text: text, SHA: hex.EncodeToString(sum[:])}
}
