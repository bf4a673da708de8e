package etcdstore

import "sync"

// views are locks as this store has last written them. A decision that begins with one of them saves
// reading. It compares that nobody else has written the lock since; if somebody has, it reads.
type views struct {
	mu   sync.Mutex
	last map[string]*lock
}

// mostViews bounds the memory of a process that uses each key once.
const mostViews = 4096

func newViews() *views { return &views{last: make(map[string]*lock)} }

// get returns a copy of the view of key, or nil.
func (v *views) get(key string) *lock {
	v.mu.Lock()
	l := v.last[key]
	v.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.clone() // nobody changes l itself
}

// keep remembers l, which nobody changes from now on.
func (v *views) keep(l *lock) {
	l.record = nil // it may end at any time
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.last) >= mostViews {
		for key := range v.last { // any
			delete(v.last, key)
			break
		}
	}
	v.last[l.key] = l
}

func (v *views) forget(keys []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range keys {
		delete(v.last, key)
	}
}
