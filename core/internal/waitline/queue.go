package waitline

// queue is places in order of arrival. It is no container/list because that allocates
// for each element what a place has in itself.
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
