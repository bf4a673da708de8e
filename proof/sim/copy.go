package sim

import (
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// replica is a copy of a server's data, as a replica has it that hears nothing more from its master.
type replica struct {
	at   time.Time
	keys []copied
}

// copied is a key, with the values of its type.
type copied struct {
	name   string
	ttl    time.Duration // 0: for ever
	text   string
	list   []string
	fields map[string]string
	scores map[string]float64
}

// replicate copies what the server has now.
func (s *server) replicate() *replica {
	s.tick()
	r := &replica{at: time.Now()}
	for _, name := range s.redis.Keys() {
		r.keys = append(r.keys, copyOf(s.redis, name))
	}
	return r
}

// copyOf copies a key. Its errors would be that it is gone or has another type.
func copyOf(m *miniredis.Miniredis, name string) copied {
	c := copied{name: name, ttl: m.TTL(name)}
	switch m.DB(0).Type(name) {
	case "string":
		c.text, _ = m.Get(name)
	case "list":
		list, _ := m.List(name)
		c.list = slices.Clone(list)
	case "hash":
		c.fields = map[string]string{}
		fields, _ := m.HKeys(name)
		for _, f := range fields {
			c.fields[f] = m.HGet(name, f)
		}
	case "zset":
		c.scores = map[string]float64{}
		scores, _ := m.SortedSet(name)
		for member, score := range scores {
			c.scores[member] = score
		}
	}
	return c
}

// promote makes a replica the server: what was written since it fell behind is lost.
func (s *server) promote(r *replica) {
	s.tick()
	s.redis.FlushAll()
	passed := time.Since(r.at)
	for _, c := range r.keys {
		if c.ttl > 0 && c.ttl <= passed {
			continue
		}
		switch {
		case c.list != nil:
			_, _ = s.redis.Push(c.name, c.list...)
		case c.fields != nil:
			for f, v := range c.fields {
				s.redis.HSet(c.name, f, v)
			}
		case c.scores != nil:
			for member, score := range c.scores {
				_, _ = s.redis.ZAdd(c.name, score, member)
			}
		default:
			_ = s.redis.Set(c.name, c.text)
		}
		if c.ttl > 0 {
			s.redis.SetTTL(c.name, c.ttl-passed)
		}
	}
}
