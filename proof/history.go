package proof

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// What says what happened to an acquisition.
type What string

// An acquisition is asked for; then it is granted, or nothing more is heard of it.
// Who has it may note, any number of times, that it still does, and what it begins
// to change. It is over with returning and one of the three that follow; or its
// process is.
const (
	Asked     What = "asked"
	Given     What = "given"     // Owner, Token, Until and TTL are set
	Holding   What = "holding"   // Until and TTL are set
	Extending What = "extending" // begins to ask for TTL; Until will be, whatever the answer
	Sharing   What = "sharing"   // begins to downgrade: what was exclusive is shared from now on
	Returning What = "returning" // the release begins
	Returned  What = "returned"  // it was freed
	Gone      What = "gone"      // it had been lost before
	Unsure    What = "unsure"    // nobody knows
)

// Somebody takes a key from all who have it: it begins, and ends with Forced or
// Unsure, or with the process.
const (
	Forcing What = "forcing" // Claims is set
	Forced  What = "forced"  // Owners is set
)

// Event is one line of a history. Times are in ns on a clock that all processes
// share.
type Event struct {
	Process, Nr int // together they name the acquisition, or what is done by force
	What        What
	At          int64
	Claims      []driver.Claim `json:",omitempty"` // Asked, Forcing
	Owner       string         `json:",omitempty"`
	Owners      []string       `json:",omitempty"` // who had it
	Token       uint64         `json:",omitempty"`
	Until       int64          `json:",omitempty"` // the holder's own deadline
	TTL         time.Duration  `json:",omitempty"`
}

// Recorder writes the events of one process. It is safe for concurrent use.
type Recorder struct {
	Process int
	// Clock is what all processes have in common; Mono tells what Clock says at a
	// moment of this process's time.
	Clock func() int64
	Mono  func(time.Time) int64

	mu sync.Mutex
	nr int
	w  io.Writer
}

// NewRecorder makes one that writes each event to w at once: what has been written
// outlives the process.
func NewRecorder(process int, w io.Writer, clock func() int64, mono func(time.Time) int64) *Recorder {
	return &Recorder{Process: process, Clock: clock, Mono: mono, w: w}
}

// Ask notes that claims are asked for, and returns the acquisition's number.
func (r *Recorder) Ask(claims []driver.Claim) int { return r.begin(Asked, claims) }

// Force notes that key begins to be taken by force, and returns a number for it.
func (r *Recorder) Force(key string) int { return r.begin(Forcing, []driver.Claim{{Key: key}}) }

func (r *Recorder) begin(what What, claims []driver.Claim) int {
	r.mu.Lock()
	r.nr++
	nr := r.nr
	r.mu.Unlock()
	r.Note(Event{Nr: nr, What: what, At: r.Clock(), Claims: claims})
	return nr
}

// Note writes an event.
func (r *Recorder) Note(e Event) {
	e.Process = r.Process
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // there is nothing in it that can't be written
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.w.Write(append(line, '\n')) // what could not be written was not seen
}

// ReadEvents reads what a recorder wrote. A last line that was cut short, by the
// death of its process, is left out.
func ReadEvents(r io.Reader) ([]Event, error) {
	var events []Event
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
}

// Never is the end of what has none.
const Never = math.MaxInt64
