package waitloop

// Bell wakes one goroutine, which receives from it. It stays rung until it is received or cleared, and
// ringing it more than once makes no difference. Make one with [NewBell]; nil never rings. It is safe
// for concurrent use.
type Bell chan struct{}

// NewBell makes a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes the goroutine, or keeps it from sleeping. It does not wait.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Clear undoes rings that nobody has received.
func (b Bell) Clear() {
	select {
	case <-b:
	default:
	}
}
