package memstore

import "time"

// version is the greatest version that a key was given.
type version struct {
	n       uint64
	expires time.Time
}

// at returns the version as of now; 0 if it has expired.
func (v version) at(now time.Time) uint64 {
	if now.Before(v.expires) {
		return v.n
	}
	return 0
}

// raise keeps the greater of n and the present version, and returns it. n 0 only asks. It
// locks.
func (m *memory) raise(key string, n uint64, retention time.Duration) uint64 {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	newest := max(n, s.versions[key].at(now))
	if n > 0 {
		s.sweep(now)
		s.versions[key] = version{n: newest, expires: now.Add(retention)}
	}
	return newest
}
