package script

import (
	"regexp"
	"strings"
)

// Redis does not say which command of a script the user may not run. It says the script's hash and
// the line, and the line has the command.
var (
	forbidden = regexp.MustCompile(`can't run this command or subcommand script: ([0-9a-f]{40}), on @user_script:([0-9]+)`)
	called    = regexp.MustCompile(`call\('([A-Z]+)'`)
)

// Forbidden returns the command of a script that the user of the client may not run, in capitals; or
// "a command" if the line is that of an error which the script has passed on; or "" if err says
// nothing of the kind.
func Forbidden(err error) string {
	const unknown = "a command"
	said := forbidden.FindStringSubmatch(err.Error())
	if said == nil {
		return ""
	}
	at := 0
	for _, digit := range said[2] {
		at = 10*at + int(digit-'0')
	}
	lines := strings.Split(texts[said[1]], "\n")
	if at < 1 || at > len(lines) {
		return unknown
	}
	// A call of several lines has its command in the first one, and Redis may name the last.
	for i := at - 1; i >= max(0, at-4); i-- {
		if command := called.FindStringSubmatch(lines[i]); command != nil {
			return command[1]
		}
	}
	return unknown
}
