package trial

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
)

// way is a proxy. One fault at a time has it.
type way struct {
	*servertest.Proxy
	name string
	busy sync.Mutex
}

func ways(name string, proxies []*servertest.Proxy) []*way {
	var all []*way
	for i, p := range proxies {
		p.Record(recorded, func(write []byte) bool { return bytes.Contains(write, []byte("evalsha")) })
		all = append(all, &way{Proxy: p, name: fmt.Sprint(name, " ", i+1)})
	}
	return all
}

// recorded is how many old requests are sent again.
const recorded = 64

// tangles are the faults of a network. A fault of another kind may use a way, too; then that way is
// left out.
func tangles(all []*way, most time.Duration) []fault {
	each := func(name string, harm func(s *stroke, w *way)) fault {
		return fault{name: name, lane: network, strike: func(s *stroke) {
			hit := all
			s.place = "all ways"
			if s.rand.IntN(3) > 0 {
				hit = all[s.rand.IntN(len(all)):][:1]
				s.place = hit[0].name
			}
			for _, w := range hit {
				if !w.busy.TryLock() {
					continue
				}
				harm(s, w)
				defer func() {
					w.Heal()
					w.Delay(0)
					w.busy.Unlock()
				}()
			}
			s.lasts(most/10, most)
		}}
	}
	return []fault{
		each("cut", func(_ *stroke, w *way) { w.Cut() }),
		each("silence", func(_ *stroke, w *way) { w.Blackhole() }),
		each("replies", func(_ *stroke, w *way) { w.CutReplies() }),
		each("delay", func(s *stroke, w *way) { w.Delay(time.Duration(s.rand.Int64N(int64(most)))) }),
		each("late", func(s *stroke, w *way) { w.DelayNext(time.Duration(s.rand.Int64N(int64(most)))) }),
		each("duplicate", func(s *stroke, w *way) { _, _ = w.Replay() }), // a server that is down gets nothing
	}
}
