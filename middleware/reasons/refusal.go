package reasons

import "time"

// Refusal says why a rule refused work. Every middleware gives it to its ErrorHandler, which answers
// in the service's own way. It is an error: errors.Is and errors.As find what the engine said, such
// as core.ErrHeld or a *core.HeldError with the holder. Clients must not be told of the key or the holder.
type Refusal struct {
	Reason     string        // one of the constants
	Rule       string        // the rule's name: a method, a template, a pattern, a kind of job
	Key        string        // the first key itself (core.WithKeyFilter does not hide it); "" if none could be made
	RetryAfter time.Duration // when to come again; 0: no repeat helps, or nobody knows when
	Again      bool          // a repeat is safe and may succeed
	Ran        bool          // the work has run, or may have; its effects may overlap with those of others
	Err        error         // what the engine said
	// Answer is what the middleware answers if the handler returns it. nil where answers are no
	// errors, as for net/http and Echo: see their DefaultErrorHandler.
	Answer error
}

// Error returns the text of Err, which may have the key as core.WithKeyFilter shows it.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }
