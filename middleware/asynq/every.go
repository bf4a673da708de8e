package lockasynq

import (
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/refusal"
)

// mostEvery is the longest delay that a rule can have.
const mostEvery = 24 * time.Hour

// RescheduleEvery returns the rule with a fixed delay: a task that did not get its key comes
// again after d, each time. The default delay follows from how long the key is held, and grows.
// Use it for keys whose holders take a known time, or for work that must not be delayed for
// long.
//
// d is one second to a day, in whole seconds, because asynq counts in seconds. The task comes
// when the server's forwarder next looks, every five seconds by default. After an outage of the
// store the delay still grows. The rule must be one that reschedules ([Reschedule], the
// default); otherwise [New] returns an error that matches core.ErrInvalidOption.
func (r Rule) RescheduleEvery(d time.Duration) Rule {
	r.every = &d
	return r
}

func (r Rule) checkDelay() error {
	switch {
	case r.every == nil:
		return nil
	case *r.every < time.Second, *r.every > mostEvery, *r.every%time.Second != 0:
		return &core.OptionError{Option: "RescheduleEvery", Value: *r.every, Want: "1s to 24h, in whole seconds"}
	case r.conflict != Reschedule:
		return &core.OptionError{Option: "RescheduleEvery", Value: *r.every, Want: "a rule with OnConflict(Reschedule)"}
	}
	return nil
}

// contended reports whether only the work of others is in the way.
func contended(err error) bool { return refusal.Of(err).Contended() }
