package tracing

import "github.com/keyturn/keyturn/core/observe"

// NewCached is New, and says for how many rules start options are kept.
func NewCached(opts ...Option) (_ observe.Hooks, rules func() int, _ error) {
	o, err := newObserver(opts)
	if err != nil {
		return observe.Hooks{}, nil, err
	}
	return o.hooks(), func() int { return len(o.starts.known) }, nil
}
