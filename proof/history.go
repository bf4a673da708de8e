package proof

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
)

// What says what happened to an acquisition.
type What string

// An acquisition is asked for; then it is granted, or nothing more is heard of it.
// Who has it may note, any number of times, that it still does. It is over with
// returning and one of the three that follow; or its process is.
const (
	Asked     What = "asked"
	Given     What = "given"     // Token and Until are set
	Holding   What = "holding"   // Until is set
	Returning What = "returning" // the release begins
	Returned  What = "returned"  // it was freed
	Gone      What = "gone"      // it had been lost before
	Unsure    What = "unsure"    // nobody knows
)

// Event is one line of a history. Times are in ns on a clock that all processes
// share.
type Event struct {
	Process, Nr int // together they name the acquisition
	What        What
	At          int64
	Claims      []core.Claim `json:",omitempty"` // Asked
	Token       uint64       `json:",omitempty"`
	Until       int64        `json:",omitempty"` // the holder's own deadline
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
func (r *Recorder) Ask(claims []core.Claim) int {
	r.mu.Lock()
	r.nr++
	nr := r.nr
	r.mu.Unlock()
	r.Note(Event{Nr: nr, What: Asked, At: r.Clock(), Claims: claims})
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

// Section is an acquisition as the history tells it.
type Section struct {
	Process, Nr int
	Claims      []core.Claim
	Asked       int64
	Given       int64 // when the answer came; Never: none did
	Token       uint64
	// End is until when, at least, the holder was entitled to act: by its own
	// deadline, as far as that was written, and while its process lived.
	End int64
	// Returning and Answered are when its release began and was over; Never: not.
	Returning, Answered int64
	Outcome             What
}

// Sections puts a history together. died says when a process was killed, at the
// earliest; those that are not in it ended by themselves.
func Sections(events []Event, died map[int]int64) []Section {
	type id struct{ process, nr int }
	byID := map[id]*Section{}
	until := map[id]int64{}
	for _, e := range events {
		id := id{e.Process, e.Nr}
		s := byID[id]
		switch e.What {
		case Asked:
			byID[id] = &Section{
				Process: e.Process, Nr: e.Nr, Claims: e.Claims, Asked: e.At,
				Given: Never, Returning: Never, Answered: Never,
			}
		case Given:
			s.Given, s.Token, until[id] = e.At, e.Token, e.Until
		case Holding:
			until[id] = max(until[id], e.Until)
		case Returning:
			s.Returning = e.At
		default:
			s.Answered, s.Outcome = e.At, e.What
		}
	}
	var all []Section
	for id, s := range byID {
		end, ok := died[s.Process]
		if !ok {
			end = Never
		}
		s.End = min(until[id], s.Returning, end)
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Section) int {
		return cmp.Or(cmp.Compare(a.Given, b.Given), cmp.Compare(a.Asked, b.Asked))
	})
	return all
}

// on is the claim of s on key.
func (s Section) on(key string) (core.Claim, bool) {
	i := slices.IndexFunc(s.Claims, func(c core.Claim) bool { return c.Key == key })
	if i < 0 {
		return core.Claim{}, false
	}
	return s.Claims[i], true
}
