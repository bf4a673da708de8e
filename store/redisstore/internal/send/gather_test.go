package send

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// answering plays the server: round trips end when the test says so.
type answering struct {
	gather
	tasks sync.WaitGroup

	mu      sync.Mutex
	batches []int           // sizes, in order
	ends    []chan struct{} // closed to end that round trip
	calm    bool            // round trips end at once
}

func newAnswering() *answering {
	p := &answering{}
	p.Go, p.trips = p.tasks.Go, 2
	p.send = func(batch []*Request) {
		end := make(chan struct{})
		p.mu.Lock()
		p.batches, p.ends = append(p.batches, len(batch)), append(p.ends, end)
		calm := p.calm
		p.mu.Unlock()
		if !calm {
			<-end
		}
	}
	return p
}

// ask sends n requests, each of a caller of its own.
func (p *answering) ask(n int) []*pending {
	var all []*pending
	for range n {
		r := new(Request)
		all = append(all, newPending(r.Alone()))
		p.add(r)
	}
	return all
}

func (p *answering) answer(batch int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ends[batch])
}

// answerAll ends all round trips, also those to come.
func (p *answering) answerAll() {
	p.mu.Lock()
	p.calm = true
	for _, end := range p.ends {
		select {
		case <-end:
		default:
			close(end)
		}
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *answering) sent(t *testing.T, want ...int) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.batches, want) {
		t.Fatalf("batches of %v were sent, want %v", p.batches, want)
	}
}

func back(all []*pending) (n int) {
	for _, one := range all {
		select {
		case <-one.done:
			n++
		default:
		}
	}
	return n
}

// An idle store adds no wait; a busy one sends together what came meanwhile.
func TestRequestsGatherWhileOthersAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		first := p.ask(1)
		p.sent(t, 1)
		second := p.ask(1)
		p.sent(t, 1, 1)
		third := p.ask(7)
		p.sent(t, 1, 1) // two are out
		p.answer(0)
		p.sent(t, 1, 1, 7)
		if back(first) != 1 || back(second) != 0 || back(third) != 0 {
			t.Error("a request is back with another's batch")
		}
		p.answer(1)
		p.answer(2)
		p.tasks.Wait()
		if back(third) != 7 {
			t.Errorf("%d of 7 are back", back(third))
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.ask(1)
		p.sent(t, 1)
		p.ask(1)
		p.sent(t, 1, 1)
		all := p.ask(batchSize + 3)
		p.answer(0)
		p.sent(t, 1, 1, batchSize)
		p.answer(1)
		p.sent(t, 1, 1, batchSize, 3)
		p.answer(2)
		p.answer(3)
		p.tasks.Wait()
		if back(all) != batchSize+3 {
			t.Errorf("%d of %d are back", back(all), batchSize+3)
		}
	})
}

// A connection that hangs does not keep the others' requests waiting; nor
// does a server that hangs get more and more of them at once.
func TestHangingRoundTripsDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.ask(1)
		p.sent(t, 1)
		p.ask(1)
		p.sent(t, 1, 1)
		late := p.ask(5)
		time.Sleep(overdue - time.Millisecond)
		p.sent(t, 1, 1)
		time.Sleep(2 * time.Millisecond)
		p.sent(t, 1, 1, 5)
		p.answer(2)
		synctest.Wait()
		if back(late) != 5 {
			t.Errorf("%d of 5 are back", back(late))
		}
		for range 2 * mostRoundTrips { // now all hang
			p.ask(1)
			time.Sleep(2 * overdue)
		}
		synctest.Wait()
		if n := len(p.batches) - 1; n != mostRoundTrips {
			t.Errorf("%d round trips are out, want %d", n, mostRoundTrips)
		}
		p.answerAll()
		if p.underWay != 0 || len(p.waiting) != 0 {
			t.Errorf("%d round trips and %d requests are left", p.underWay, len(p.waiting))
		}
	})
}

// While few requests are under way, gathered or not, their callers send them.
func TestFewAreSentByTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.few = 2
		if first, second, third := p.enter(), p.enter(), p.enter(); !first || !second || third {
			t.Errorf("of three may go: %t, %t, %t", first, second, third)
		}
		p.ask(1)
		p.sent(t, 1)
		p.leave()
		if p.enter() {
			t.Error("one may go beside two others")
		}
		p.answer(0)
		synctest.Wait()
		if !p.enter() {
			t.Error("none may go beside one other")
		}
	})
}

// A full batch does not wait for another's replies.
func TestFullBatchesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.trips, p.full = 1, 3
		p.ask(1)
		p.sent(t, 1)
		all := p.ask(2)
		p.sent(t, 1)
		all = append(all, p.ask(1)...)
		p.sent(t, 1, 3)
		p.answer(1)
		synctest.Wait()
		if back(all) != 3 {
			t.Errorf("%d of 3 are back", back(all))
		}
	})
}
