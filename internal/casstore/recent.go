package casstore

import "sync"

// Recent is what a store remembers of the keys that it has used lately. It is safe for concurrent use.
type Recent[V any] struct {
	most int
	mu   sync.Mutex
	keys map[string]V
}

// NewRecent makes one that remembers so many keys at most: of more, it forgets any.
func NewRecent[V any](most int) *Recent[V] {
	return &Recent[V]{most: most, keys: make(map[string]V)}
}

// Get returns what is known of a key.
func (r *Recent[V]) Get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.keys[key]
	return v, ok
}

// Put remembers v.
func (r *Recent[V]) Put(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.keys[key]; !known && len(r.keys) >= r.most {
		for other := range r.keys {
			delete(r.keys, other)
			break
		}
	}
	r.keys[key] = v
}

// Drop forgets keys.
func (r *Recent[V]) Drop(keys ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		delete(r.keys, key)
	}
}

// Clear forgets all keys.
func (r *Recent[V]) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.keys)
}
