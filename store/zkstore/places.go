package zkstore

import "sync"

// place is a request of this process that waits in a queue.
type place struct{ wake chan struct{} }

func newPlace() *place { return &place{wake: make(chan struct{}, 1)} }

// clear drops a message.
func (p *place) clear() {
	select {
	case <-p.wake:
	default:
	}
}

func (p *place) tell() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake, or about to be
	}
}

// places are the requests of this process that wait, by the paths of the nodes whose change calls for
// a question.
type places struct {
	mu     sync.Mutex
	byPath map[string]*watch
	all    map[*place][]string
}

// watch is the interest in a node.
type watch struct {
	places map[*place]struct{}
	// set: the server tells of the next change. The client keeps each watch that is asked for until
	// it fires, so a waiter that asks often must not ask for another one.
	set   bool
	fired uint64 // counts the changes
}

func newPlaces() *places {
	return &places{byPath: make(map[string]*watch), all: make(map[*place][]string)}
}

func (s *places) join(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[p] = nil
}

func (s *places) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p)
	delete(s.all, p)
}

// forget ends p's interest in all nodes.
func (s *places) forget(p *place) {
	for _, path := range s.all[p] {
		if w := s.byPath[path]; w != nil {
			delete(w.places, p)
			s.drop(path, w)
		}
	}
	s.all[p] = nil
}

// drop deletes a watch that is of no use any more.
func (s *places) drop(path string, w *watch) {
	if len(w.places) == 0 && !w.set {
		delete(s.byPath, path)
	}
}

// want makes changes of the nodes wake p, instead of those of the call before.
func (s *places) want(p *place, paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p)
	s.all[p] = paths
	for _, path := range paths {
		w := s.byPath[path]
		if w == nil {
			w = &watch{places: make(map[*place]struct{})}
			s.byPath[path] = w
		}
		w.places[p] = struct{}{}
	}
}

// isSet reports whether the server tells of the next change of the node, and otherwise how many there
// were.
func (s *places) isSet(path string) (set bool, fired uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byPath[path]
	if w == nil {
		return false, 0
	}
	return w.set, w.fired
}

// isSetNow notes that the server tells of the next change, unless there was one since isSet.
func (s *places) isSetNow(path string, fired uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.byPath[path]; w != nil && w.fired == fired {
		w.set = true
	}
}

// event wakes those that want to know of a node; "": messages may have been missed.
func (s *places) event(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path != "" {
		if w := s.byPath[path]; w != nil {
			s.fire(path, w)
		}
		return
	}
	for path, w := range s.byPath {
		s.fire(path, w)
	}
	for p := range s.all {
		p.tell()
	}
}

func (s *places) fire(path string, w *watch) {
	w.set = false
	w.fired++
	for p := range w.places {
		p.tell()
	}
	s.drop(path, w)
}
