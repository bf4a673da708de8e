package memstore

// spare keeps a few things that are not in use, so that a key that comes and
// goes costs no allocation.
type spare[T any] struct{ idle []*T }

const maxSpare = 16

func (p *spare[T]) take() *T {
	n := len(p.idle) - 1
	if n < 0 {
		return new(T)
	}
	v := p.idle[n]
	p.idle = p.idle[:n]
	return v
}

// give takes v, which must be clean: nothing that was stored in it may be kept
// from the garbage collector, or come back.
func (p *spare[T]) give(v *T) {
	if len(p.idle) < maxSpare {
		p.idle = append(p.idle, v)
	}
}
