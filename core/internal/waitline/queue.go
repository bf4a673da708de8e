package waitline

// queue holds places in order of arrival. It does not use container/list, which allocates an
// element for each place; a place has the links in itself.
type queue struct {
	first, last *place
	n           int
}

func (q *queue) push(p *place) {
	p.before = q.last
	if q.last == nil {
		q.first = p
	} else {
		q.last.behind = p
	}
	q.last = p
	q.n++
}

func (q *queue) remove(p *place) {
	if p.before == nil {
		q.first = p.behind
	} else {
		p.before.behind = p.behind
	}
	if p.behind == nil {
		q.last = p.before
	} else {
		p.behind.before = p.before
	}
	p.before, p.behind = nil, nil
	q.n--
}
