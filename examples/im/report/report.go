// Package report shows the result of a run: to people as a table, to programs as JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/keyturn/keyturn/examples/im/load"
)

// Result is the result of the same load without keyturn and with it.
type Result struct {
	Redis     string       `json:"redis"`
	Seconds   float64      `json:"seconds"` // of the whole run
	Unguarded load.Figures `json:"unguarded"`
	Guarded   load.Figures `json:"guarded"`

	// How long each load took.
	UnguardedTook, GuardedTook time.Duration `json:"-"`
}

// Clean reports whether nothing went wrong with locks.
func (r Result) Clean() bool { return r.Guarded.Clean() }

// WriteJSON writes the result as one object.
func (r Result) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(r)
}

// WriteTable writes the result as a table.
func (r Result) WriteTable(w io.Writer) error {
	t := table{w: w}
	t.row("", "", "without keyturn", "with keyturn")
	t.figures("status updates lost", load.StatusUpdates, r.Unguarded.StatusLostUpdates, r.Guarded.StatusLostUpdates)
	t.figures("members too many or twice", 0, r.Unguarded.GroupViolations, r.Guarded.GroupViolations)
	t.figures("messages processed twice", load.Messages, r.Unguarded.MessagesProcessedTwice, r.Guarded.MessagesProcessedTwice)
	t.figures("messages lost", load.Messages, r.Unguarded.MessagesLost, r.Guarded.MessagesLost)
	t.figures("requests", 0, r.Unguarded.Requests, r.Guarded.Requests)
	t.row("seconds", "", seconds(r.UnguardedTook), seconds(r.GuardedTook))
	t.write("\n%s\n", r.verdict())
	return t.err
}

func (r Result) verdict() string {
	if !r.Clean() {
		return "Something went wrong although the locks were there. That is a bug: please report it."
	}
	return `Same handlers, same load. The difference, in examples/im, is a line next to each:
  gateway/gateway.go    lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}")
  impb/im.proto         option (keyturn.v1.lock) = {key: "group:{group_id}", name: "group-members"};
  service/messages.go   lockasynq.Once(delivery.Type, "message:{payload.message_id}")
It takes longer as these few users and groups are always busy, and now take turns.`
}

// table writes until a write fails.
type table struct {
	w   io.Writer
	err error
}

func (t *table) write(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

func (t *table) row(what, most, without, with string) {
	t.write("%-26s %-8s %17s %17s\n", what, most, without, with)
}

// figures writes a row of numbers. most is the greatest possible number; 0: unknown.
func (t *table) figures(what string, most, without, with int) {
	of := ""
	if most > 0 {
		of = fmt.Sprintf("of %d", most)
	}
	t.row(what, of, fmt.Sprint(without), fmt.Sprint(with))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
