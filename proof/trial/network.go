package trial

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
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

// waysTo makes a way to a server for each process.
func waysTo(t *redistest.Run, c Config, addr string) []*way {
	var proxies []*servertest.Proxy
	for range c.Processes {
		proxies = append(proxies, servertest.NewProxy(t, addr))
	}
	return ways("way", proxies)
}

// recorded is how many old requests are sent again.
const recorded = 64

// step is a part of a fault of the network: harm is done to each way, and lasts.
type step struct {
	harm        func(s *stroke, w *way)
	least, most time.Duration
}

// tangles are the faults of a network. A fault of another kind may use a way, too; then that way is
// left out.
func tangles(all []*way, most time.Duration) []fault {
	each := func(name string, steps ...step) fault {
		return fault{name: name, lane: network, strike: func(s *stroke) {
			hit := all
			s.place = "all ways"
			if s.rand.IntN(3) > 0 {
				hit = all[s.rand.IntN(len(all)):][:1]
				s.place = hit[0].name
			}
			hit = slices.DeleteFunc(slices.Clone(hit), func(w *way) bool { return !w.busy.TryLock() })
			for _, step := range steps {
				for _, w := range hit {
					step.harm(s, w)
				}
				s.lasts(step.least, step.most)
			}
			for _, w := range hit {
				w.Heal()
				w.Delay(0)
				w.busy.Unlock()
			}
		}}
	}
	once := func(name string, harm func(s *stroke, w *way)) fault { return each(name, step{harm, most / 10, most}) }
	delay := func(most time.Duration) func(*stroke, *way) {
		return func(s *stroke, w *way) { w.Delay(time.Duration(s.rand.Int64N(int64(most)))) }
	}
	silence := func(_ *stroke, w *way) { w.Blackhole() }
	return []fault{
		once("cut", func(_ *stroke, w *way) { w.Cut() }),
		once("silence", silence),
		once("replies", func(_ *stroke, w *way) { w.CutReplies() }),
		once("delay", delay(most)),
		// The last answers before the silence come late, and nothing can be renewed after them.
		each("fade", step{delay(most / 2), most / 10, most}, step{silence, most, 5 * most / 4}),
		once("late", func(s *stroke, w *way) { w.DelayNext(time.Duration(s.rand.Int64N(int64(most)))) }),
		once("duplicate", func(_ *stroke, w *way) { _, _ = w.Replay() }), // a server that is down gets nothing
	}
}
