package who

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// Process is where a lease belongs: an engine of a process, or a foreign client.
type Process struct {
	// ID is the same for all owners of one engine. A process that was started anew under an old
	// number has another one. For a foreign client it is the value of the lock.
	ID string
	// Label is short, for people: "im-7 pid 41". It is not unique.
	Label   string
	Foreign bool
}

// foreignShown is how many bytes of a foreign client's value a label has.
const foreignShown = 24

// Of returns the process of an owner.
func Of(owner string) Process {
	o, err := driver.ParseOwner(owner)
	if err != nil {
		short := owner
		if len(short) > foreignShown {
			short = strings.ToValidUTF8(short[:foreignShown], "") + "…"
		}
		return Process{ID: owner, Label: "foreign client " + strconv.Quote(short), Foreign: true}
	}
	label := fmt.Sprintf("%s pid %d", o.Host, o.PID)
	if o.Instance > 1 {
		label += fmt.Sprintf(" engine %d", o.Instance)
	}
	return Process{ID: strings.TrimSuffix(owner, "/"+o.ID), Label: label}
}
