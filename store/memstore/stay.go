package memstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// stay ends g's lease on key for its owner, and keeps the key for g.Stay.
func (s *shard) stay(e *entry, h *holder, g driver.Grant, now time.Time) {
	h.released = true
	e.extend(h, g.Stay, now)
}
