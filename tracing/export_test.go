package tracing

import "github.com/keyturn/keyturn/core"

// NewCached is New, and says for how many rules start options are kept.
func NewCached(opts ...Option) (_ core.Hooks, rules func() int, _ error) {
	o, err := newObserver(opts)
	if err != nil {
		return core.Hooks{}, nil, err
	}
	return o.hooks(), func() int { return len(o.starts.known) }, nil
}
