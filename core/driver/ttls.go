package driver

import (
	"fmt"
	"time"
)

// The bounds of a TTL in every store. Below MinTTL a lease could not be renewed in time over
// a network; above MaxTTL a crashed holder would block its key for days.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 24 * time.Hour
)

// TTLs are the TTLs that a store can keep: whole steps within bounds. The zero value is
// whole milliseconds from [MinTTL] to [MaxTTL].
type TTLs struct {
	Least time.Duration // 0: MinTTL
	Most  time.Duration // 0: MaxTTL
	Step  time.Duration // 0: a millisecond
}

// Fit rounds d up to a whole step, never down: a lease must not end sooner than its holder
// asked for. It reports whether the store can keep the result.
func (t TTLs) Fit(d time.Duration) (rounded time.Duration, ok bool) {
	t, rounded = t.known(), d
	if rest := d % t.Step; rest > 0 {
		rounded += t.Step - rest
	}
	return rounded, d >= MinTTL && t.Least <= rounded && rounded <= t.Most
}

// Nearest is the TTL closest to d that the store can keep, d rounded up to a step if it is
// within bounds.
func (t TTLs) Nearest(d time.Duration) time.Duration {
	k := t.known()
	d, _ = t.Fit(max(min(d, k.Most), k.Least))
	if d > k.Most {
		d -= k.Step
	}
	return d
}

// String is the text that an error says a TTL must be: "10ms to 24h0m0s".
func (t TTLs) String() string {
	k := t.known()
	if t.Step <= time.Millisecond {
		return fmt.Sprintf("%v to %v", k.Least, k.Most)
	}
	return fmt.Sprintf("%v to %v, rounded up to a multiple of %v", k.Least, k.Most, k.Step)
}

// known is t with the values that its zeros stand for.
func (t TTLs) known() TTLs {
	t.Least = max(t.Least, MinTTL)
	if t.Most == 0 || t.Most > MaxTTL {
		t.Most = MaxTTL
	}
	t.Step = max(t.Step, time.Millisecond)
	return t
}
