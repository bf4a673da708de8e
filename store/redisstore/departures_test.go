package redisstore

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// airport plays the server: flights land when the test says so.
type airport struct {
	departures
	tasks sync.WaitGroup

	mu     sync.Mutex
	groups []int           // sizes, in order of departure
	gates  []chan struct{} // closed to have that flight land
	calm   bool            // flights land at once
}

func newAirport() *airport {
	p := &airport{}
	p.run = p.tasks.Go
	p.send = func(group []*request) {
		gate := make(chan struct{})
		p.mu.Lock()
		p.groups, p.gates = append(p.groups, len(group)), append(p.gates, gate)
		calm := p.calm
		p.mu.Unlock()
		if !calm {
			<-gate
		}
	}
	return p
}

// book has n requests leave, each for itself.
func (p *airport) book(n int) []*trip {
	var trips []*trip
	for range n {
		r := new(request)
		newTrip(r.alone())
		trips = append(trips, r.trip)
		p.leave(r)
	}
	return trips
}

func (p *airport) land(flight int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.gates[flight])
}

// clear has all flights land, also those to come.
func (p *airport) clear() {
	p.mu.Lock()
	p.calm = true
	for _, g := range p.gates {
		select {
		case <-g:
		default:
			close(g)
		}
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *airport) departed(t *testing.T, want ...int) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.groups, want) {
		t.Fatalf("groups of %v have left, want %v", p.groups, want)
	}
}

func home(trips []*trip) (n int) {
	for _, tr := range trips {
		select {
		case <-tr.home:
			n++
		default:
		}
	}
	return n
}

// An idle store adds no wait; a busy one sends together what came meanwhile.
func TestRequestsGatherWhileOthersAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAirport()
		defer p.clear()
		first := p.book(1)
		p.departed(t, 1)
		second := p.book(1)
		p.departed(t, 1, 1)
		third := p.book(7)
		p.departed(t, 1, 1) // two are out
		p.land(0)
		p.departed(t, 1, 1, 7)
		if home(first) != 1 || home(second) != 0 || home(third) != 0 {
			t.Error("a request is back with another's flight")
		}
		p.land(1)
		p.land(2)
		p.tasks.Wait()
		if home(third) != 7 {
			t.Errorf("%d of 7 are back", home(third))
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAirport()
		defer p.clear()
		p.book(1)
		p.departed(t, 1)
		p.book(1)
		p.departed(t, 1, 1)
		all := p.book(groupSize + 3)
		p.land(0)
		p.departed(t, 1, 1, groupSize)
		p.land(1)
		p.departed(t, 1, 1, groupSize, 3)
		p.land(2)
		p.land(3)
		p.tasks.Wait()
		if home(all) != groupSize+3 {
			t.Errorf("%d of %d are back", home(all), groupSize+3)
		}
	})
}

// A connection that hangs does not keep the others' requests on the ground; nor
// does a server that hangs get more and more of them at once.
func TestHangingFlightsDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAirport()
		defer p.clear()
		p.book(1)
		p.departed(t, 1)
		p.book(1)
		p.departed(t, 1, 1)
		late := p.book(5)
		time.Sleep(overdue - time.Millisecond)
		p.departed(t, 1, 1)
		time.Sleep(2 * time.Millisecond)
		p.departed(t, 1, 1, 5)
		p.land(2)
		synctest.Wait()
		if home(late) != 5 {
			t.Errorf("%d of 5 are back", home(late))
		}
		for range 2 * mostFlights { // now all hang
			p.book(1)
			time.Sleep(2 * overdue)
		}
		synctest.Wait()
		if n := len(p.groups) - 1; n != mostFlights {
			t.Errorf("%d flights are out, want %d", n, mostFlights)
		}
		p.clear()
		if p.inAir != 0 || len(p.waiting) != 0 {
			t.Errorf("%d flights and %d requests are left", p.inAir, len(p.waiting))
		}
	})
}
