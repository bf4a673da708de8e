package hot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/console/internal/hot"
)

var start = time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)

func TestTheGreatestAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	var s hot.Sketch
	for round := range 50 {
		at := start.Add(time.Duration(round) * time.Second)
		for i := range 1000 {
			s.Add(fmt.Sprint("cold", i), at, 0.01)
		}
		s.Add("hot", at, 30)
		s.Add("warm", at, 20)
	}
	top := s.Top(start.Add(time.Minute), time.Time{}, 2)
	if len(top) != 2 || top[0].Key != "hot" || top[1].Key != "warm" {
		t.Fatalf("%+v", top)
	}
	// What another key had before in the same place does not count, so it is never too much.
	if top[0].Amount > 1500.001 || top[0].Amount < 1400 || top[1].Amount > 1000.001 {
		t.Errorf("%+v", top)
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	var s hot.Sketch
	s.Add("old", start, 100)
	s.Add("new", start.Add(30*time.Minute), 10)
	s.Add("none", start, 0)
	now := start.Add(31 * time.Minute)
	if top := s.Top(now, now.Add(-5*time.Minute), 10); len(top) != 1 || top[0] != (hot.Key{Key: "new", Amount: 10}) {
		t.Errorf("%+v", top)
	}
	if top := s.Top(now, now.Add(-time.Hour), 10); len(top) != 2 || top[0].Key != "old" {
		t.Errorf("%+v", top)
	}
	now = start.Add(61 * time.Minute)
	if top := s.Top(now, now.Add(-time.Hour), 10); len(top) != 1 || top[0].Key != "new" {
		t.Errorf("%+v", top)
	}
	if top := s.Top(now, time.Time{}, 1); len(top) != 1 || top[0].Key != "old" {
		t.Errorf("%+v", top)
	}
	// The bucket of a minute is used again after an hour.
	s.Add("old", start.Add(60*time.Minute), 1)
	if top := s.Top(now, now.Add(-5*time.Minute), 1); len(top) != 1 || top[0].Amount != 1 {
		t.Errorf("%+v", top)
	}
}
