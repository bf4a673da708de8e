package history

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// What is a kind of event.
type What string

// The events of an acquisition. After Asked it is granted, or no further event follows. Its
// holder may note, any number of times, that it still holds it, and which change it begins. It
// ends with Returning and one of the three events after that, or with its process. Noticed may
// come at any time after Given, because nobody waits for it.
const (
	Asked     What = "asked"
	Denied    What = "denied"    // it was refused, and holds nothing
	Given     What = "given"     // Owner, Token, Until and TTL are set
	Holding   What = "holding"   // Until and TTL are set
	Extending What = "extending" // begins to ask for TTL; Until is the deadline whatever the answer is
	Sharing   What = "sharing"   // begins to downgrade: exclusive claims count as shared from now on
	Noticed   What = "noticed"   // the holder was told that the lease is lost
	Returning What = "returning" // the release begins
	Returned  What = "returned"  // the lease was released
	Gone      What = "gone"      // the lease had been lost before
	Unsure    What = "unsure"    // nobody knows
)

// The events of a forced release. It begins with Forcing and ends with Forced or Unsure, or
// with the process.
const (
	Forcing What = "forcing" // Claims is set; Owners, if it is only for these
	Forced  What = "forced"  // Owners is set
)

// The events of an increment of a register under a lease. It begins with Adding. When the old
// value is read, Writing follows, and then one of the others.
const (
	Adding  What = "adding"  // Key is set, and Token if the register compares it
	Writing What = "writing" // Value is what was read
	Added   What = "added"
	Stale   What = "stale" // the register has seen a greater token
)

// The events of a call of Once. It begins with Calling. Running and Ran are those of its function,
// if that runs. The last one is Recorded, Replayed, Denied, or Unsure. An execution is also an
// acquisition, with the number of the call.
const (
	Calling  What = "calling"  // Key is set
	Ran      What = "ran"      // the effect is done
	Recorded What = "recorded" // the call ran the function, and that is on record
	Replayed What = "replayed" // it was on record
)

// Lingered is that a process took a lease that it had kept (core.WithLinger). It belongs to no
// acquisition, and shows only that this happened.
const Lingered What = "lingered"

// Untyped is an error that matches none of those that a caller can tell apart. Key is its text.
const Untyped What = "untyped"

// Event is one line of a history. Times are in ns on a clock that all processes
// share.
type Event struct {
	Process, Nr int // together they identify the acquisition, or the forced release
	What        What
	At          int64
	Claims      []driver.Claim `json:",omitempty"` // Asked, Forcing
	Key         string         `json:",omitempty"`
	Value       uint64         `json:",omitempty"`
	Owner       string         `json:",omitempty"`
	Owners      []string       `json:",omitempty"` // the holders that lost it
	Token       uint64         `json:",omitempty"`
	Until       int64          `json:",omitempty"` // the holder's own deadline
	TTL         time.Duration  `json:",omitempty"`
}

// Recorder writes the events of one process. It is safe for concurrent use.
type Recorder struct {
	Process int
	// Clock is the clock that all processes share. Mono converts a time of this process to that
	// clock.
	Clock func() int64
	Mono  func(time.Time) int64
	// Keep keeps an event. It is called by one goroutine at a time.
	Keep func(Event)

	mu sync.Mutex
	nr int
}

// NewRecorder makes a recorder that writes each event to w at once, so that events survive the
// death of the process.
func NewRecorder(process int, w io.Writer, clock func() int64, mono func(time.Time) int64) *Recorder {
	return &Recorder{Process: process, Clock: clock, Mono: mono, Keep: func(e Event) {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err) // an Event can always be encoded
		}
		_, _ = w.Write(append(line, '\n')) // an event that cannot be written is missing from the history
	}}
}

// Ask notes that claims are requested, and returns the acquisition's number.
func (r *Recorder) Ask(claims []driver.Claim) int { return r.Begin(Event{What: Asked, Claims: claims}) }

// Force notes that a forced release of key begins, and returns a number for it. With owners, it is
// for their leases only.
func (r *Recorder) Force(key string, owners ...string) int {
	return r.Begin(Event{What: Forcing, Claims: []driver.Claim{{Key: key}}, Owners: owners})
}

// Begin notes the first event of an operation, at this moment, and returns the number for the
// others.
func (r *Recorder) Begin(e Event) int {
	r.mu.Lock()
	r.nr++
	e.Nr = r.nr
	r.mu.Unlock()
	r.Now(e)
	return e.Nr
}

// Now notes an event at this moment.
func (r *Recorder) Now(e Event) {
	e.At = r.Clock()
	r.Note(e)
}

// Note notes an event.
func (r *Recorder) Note(e Event) {
	e.Process = r.Process
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Keep(e)
}

// ReadEvents reads what a recorder wrote. It leaves out a last line that the death of its
// process cut short.
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

// Never is a time that never comes.
const Never = math.MaxInt64
