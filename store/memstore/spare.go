package memstore

// spare keeps a few unused objects, so that a key that comes and goes costs no allocation.
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

// give keeps v for later use. v must be clean: otherwise what was stored in it would stay in
// memory, or come back.
func (p *spare[T]) give(v *T) {
	if len(p.idle) < maxSpare {
		p.idle = append(p.idle, v)
	}
}
