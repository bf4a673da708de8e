package poll

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// When the clock of the console's machine was set back by an hour, what was seen before stayed for an hour: also keys that
// were free or had another holder by then.
func TestTheClockIsSetBack(t *testing.T) {
	held := func(key, by string) driver.LockInfo {
		return driver.LockInfo{Key: key, Holders: []driver.Holder{{Owner: by}}}
	}
	var s seen
	s.init(time.Second)
	now := time.Now()
	s.listed(now, held("taken", "a"))
	s.listed(now, held("freed", "a"))
	back := now.Add(-time.Hour)
	s.listed(back, held("taken", "b"))
	s.swept(back, back, nil)
	if owner, _ := s.rows["taken"].holder(); owner != "b" || len(s.rows) != 1 {
		t.Errorf("%d rows, held by %s", len(s.rows), owner)
	}
}
