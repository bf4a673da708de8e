package zkstore

import (
	"sync"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// watchers are the requests of this process that wait, by the paths of the nodes whose change calls for
// a question.
type watchers struct {
	mu     sync.Mutex
	byPath map[string]*watch
	paths  map[waitloop.Bell][]string // that each request follows
}

// watch is the interest in a node.
type watch struct {
	wakes map[waitloop.Bell]struct{}
	// set: the server tells of the next change. The client keeps each watch that is asked for until
	// it fires, so a waiter that asks often must not ask for another one.
	set   bool
	fired uint64 // counts the changes
}

func newWatchers() *watchers {
	return &watchers{byPath: make(map[string]*watch), paths: make(map[waitloop.Bell][]string)}
}

// leave ends a request's interest in all nodes.
func (s *watchers) leave(wake waitloop.Bell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(wake)
}

func (s *watchers) forget(wake waitloop.Bell) {
	for _, path := range s.paths[wake] {
		w := s.byPath[path]
		delete(w.wakes, wake)
		s.drop(path, w)
	}
	delete(s.paths, wake)
}

// drop deletes a watch that is of no use any more.
func (s *watchers) drop(path string, w *watch) {
	if len(w.wakes) == 0 && !w.set {
		delete(s.byPath, path)
	}
}

// follow makes changes of the nodes wake a request, instead of those of the call before.
func (s *watchers) follow(wake waitloop.Bell, paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(wake)
	s.paths[wake] = paths
	for _, path := range paths {
		w := s.byPath[path]
		if w == nil {
			w = &watch{wakes: make(map[waitloop.Bell]struct{})}
			s.byPath[path] = w
		}
		w.wakes[wake] = struct{}{}
	}
}

// isSet reports whether the server tells of the next change of the node, and otherwise how many there
// were.
func (s *watchers) isSet(path string) (set bool, fired uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byPath[path]
	if w == nil {
		return false, 0
	}
	return w.set, w.fired
}

// isSetNow notes that the server tells of the next change, unless there was one since isSet.
func (s *watchers) isSetNow(path string, fired uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.byPath[path]; w != nil && w.fired == fired {
		w.set = true
	}
}

// event wakes those that want to know of a node. It is also called for each watch that has ended with its session.
func (s *watchers) event(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byPath[path]
	if w == nil {
		return
	}
	w.set = false
	w.fired++
	for wake := range w.wakes {
		wake.Ring()
	}
	s.drop(path, w)
}
