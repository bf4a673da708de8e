package rule

import (
	"context"
	"errors"
)

// Turn is a call of [Rule.Serialize] whose function waits, for work that is no function: it begins with [Rule.Take]
// and ends with End. The call has a goroutine of its own, which ends with it: a coroutine of package iter would end the
// process if the work locks its thread.
type Turn struct {
	Context context.Context // of the work: it has the lease, and ends with it
	Keys    Keys

	over     chan struct{} // closed by End
	released chan struct{} // closed when the call has returned, and refused and panicked are set
	refused  error
	panicked any // of a hook or the store
}

// errGone stays if the call does not return, as after runtime.Goexit in a hook or the store. Without it, the work would
// run without its lease.
var errGone = errors.New("keyturn: a hook or the store has ended the goroutine of a turn")

// Take waits for a turn. An error is as refused in [Rule.Serialize].
func (r *Rule[R]) Take(ctx context.Context, keys Keys) (*Turn, error) {
	t := &Turn{Keys: keys, over: make(chan struct{}), released: make(chan struct{}), refused: errGone}
	granted := make(chan context.Context, 1)
	go func() {
		defer close(t.released)
		defer func() { t.panicked = recover() }()
		t.refused, _ = r.Serialize(ctx, keys, func(ctx context.Context) error {
			granted <- ctx
			<-t.over
			return nil
		})
	}()
	select {
	case t.Context = <-granted:
		return t, nil
	case <-t.released:
		return nil, t.end()
	}
}

// End lets the next one in. It is called once. An error means that the lease was lost.
func (t *Turn) End() error {
	close(t.over)
	<-t.released
	return t.end()
}

// end panics where the work's own recovery can see it.
func (t *Turn) end() error {
	if t.panicked != nil {
		panic(t.panicked)
	}
	return t.refused
}
