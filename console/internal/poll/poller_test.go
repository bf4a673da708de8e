package poll_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

// step lets an interval pass and everything happen that is due.
func step() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// look is somebody who looks, and sees.
func look(p *poll.Poller) {
	p.Look("")
	synctest.Wait()
}

// polling runs a test of a poller, in a time of its own. It polls for nobody, too, if always.
func polling(t *testing.T, always bool, test func(*testing.T, *fake, *poll.Poller)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := poll.New(f, time.Second, always)
		defer p.Close()
		test(t, f, p)
	})
}

func TestPollsWhileSomebodyLooks(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		f.set("a", lock{since: time.Now().Add(-time.Minute)})
		time.Sleep(time.Hour)
		if n, _ := f.asked(); n > 0 || p.Status().Tick > 0 {
			t.Fatal("it polls for nobody")
		}
		look(p)
		st := p.Status()
		check(t, st.Keys == 1 && st.Tick == 1 && !st.SweptAt.IsZero(), "%+v", st)
		time.Sleep(time.Minute)
		synctest.Wait()
		f.asked()
		time.Sleep(time.Hour)
		if n, _ := f.asked(); n > 0 {
			t.Error("it goes on although nobody looks")
		}
		// What it saw an hour ago is not shown as the present.
		f.free("a")
		f.set("b", lock{since: time.Now()})
		look(p)
		check(t, p.Row("a") == nil && p.Row("b") != nil, "old rows are shown")
		step()
		// Nobody looked for an hour, so nothing is known of it.
		spans := p.Spans("a", time.Now().Add(-2*time.Hour))
		check(t, len(spans) == 2 && spans[1].From.Sub(spans[0].To) >= 59*time.Minute && spans[1].Free, "%+v", spans)
	})
}

func TestRowsComeAndGo(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		look(p)
		f.set("a", lock{since: time.Now(), waits: time.Now()})
		next := p.Next()
		step()
		select {
		case <-next:
		default:
			t.Error("nobody was told")
		}
		st := p.Status()
		check(t, st.Keys == 1 && st.Waiters == 1 && st.Contended == 1, "%+v", st)
		all := p.Contended()
		check(t, len(all) == 1 && all[0].Key == "a", "%+v", all)
		f.free("a")
		step()
		check(t, p.Row("a") == nil, "the row stays")
		p.Look("a")
		f.set("a", lock{recorded: true})
		step()
		check(t, p.Row("a") != nil, "the record is not shown")
		f.free("a")
		step()
		check(t, p.Row("a") == nil, "the record stays")
		f.set("a", lock{recorded: true})
		for i := range 300 { // more than are kept
			p.Look(fmt.Sprint(i))
		}
		p.Look("a")
		check(t, p.Refresh(t.Context(), "a") == nil && p.Row("a") != nil, "the record of the key that was opened last is not shown")
	})
}

// A store with many keys is asked no more than one with few. The keys that matter are seen all the same.
func TestManyKeysInRotation(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		begin := time.Now()
		for i := range 5000 {
			f.set(fmt.Sprintf("k%04d", i), lock{since: begin})
		}
		for i := range 30 {
			f.set(fmt.Sprintf("w%02d", i), lock{since: begin, waits: begin.Add(time.Duration(-i) * time.Minute)})
		}
		for range 12 {
			p.Look("k4242")
			step()
			if listed, inspected := f.asked(); listed > 1200 || len(inspected) > 16 {
				t.Errorf("listed %d, inspected %d", listed, len(inspected))
			}
		}
		st := p.Status()
		check(t, st.Keys == 5030 && !st.SweptAt.IsZero(), "%+v", st)
		step()
		_, inspected := f.asked()
		want := []string{"k4242"}
		for i := 15; i < 30; i++ {
			want = append(want, fmt.Sprintf("w%02d", i))
		}
		check(t, slices.Equal(inspected, want), "%v", inspected)
		age := time.Since(p.Row("w29").At())
		check(t, age <= time.Second, "a key with waiters was seen %v ago", age)
		rows, pass := p.Rows(func(r *poll.Row) bool { return !strings.HasPrefix(r.Key, "w1") }, 25)
		check(t, pass == 5020 && len(rows) == 25 && rows[0].Key == "w29" && rows[19].Key == "w00" && rows[20].Key == "k0000", "%d rows of %d, first %s", len(rows), pass, rows[0].Key)
	})
}

// More keys are open than are looked at in an interval: they take turns, and leave room for the longest waits.
func TestManyOpenKeysTakeTurns(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		begin := time.Now()
		for i := range 5000 {
			f.set(fmt.Sprintf("k%04d", i), lock{since: begin})
		}
		f.set("w", lock{since: begin, waits: begin})
		var open []string
		for i := range 40 {
			open = append(open, fmt.Sprintf("free%02d", i))
			p.Look(open[i])
		}
		for range 10 {
			step() // until the list has come to the key with a waiter
		}
		f.asked()
		asked := make(map[string]int)
		for range 4 {
			step()
			_, inspected := f.asked()
			check(t, len(inspected) <= 16, "%d at once", len(inspected))
			for _, key := range inspected {
				asked[key]++
			}
		}
		check(t, asked["w"] == 4, "the longest wait was looked at %d times", asked["w"])
		for _, key := range open {
			check(t, asked[key] != 0, "%s was not looked at", key)
		}
	})
}

func TestAStoreThatIsOut(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		f.set("a", lock{since: time.Now()})
		look(p)
		out := &driver.UnavailableError{Op: "list", Err: errors.New("out")}
		f.fail(out)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		st := p.Status()
		check(t, errors.Is(st.Err, driver.ErrUnavailable) && time.Since(st.ErrSince) >= 3*time.Second && p.Row("a") != nil, "%+v", st)
		check(t, time.Since(p.Row("a").At()) >= 4*time.Second, "the row looks young")
		f.fail(nil)
		step()
		if st = p.Status(); st.Err != nil {
			t.Errorf("%+v", st)
		}
	})
}

func TestHotKeys(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		f.set("long", lock{since: time.Now().Add(-time.Hour)})
		look(p)
		for range 10 {
			f.set("often", lock{since: time.Now().Add(900 * time.Millisecond), waits: time.Now()})
			step()
		}
		first := func(k poll.Kind) (string, float64) {
			top := p.Hot(k, time.Time{}, 1)
			if len(top) == 0 {
				return "", 0
			}
			return top[0].Key, top[0].Amount
		}
		// What was before the first look does not count.
		if key, n := first(poll.Held); key != "long" || n < 9 || n > 11 {
			t.Errorf("held: %s %g", key, n)
		}
		if key, n := first(poll.Waited); key != "often" || n < 9 || n > 11 {
			t.Errorf("waited: %s %g", key, n)
		}
		if key, n := first(poll.Changed); key != "often" || n != 10 {
			t.Errorf("changed: %s %g", key, n)
		}
	})
}

// A viewer who comes again counts no time twice.
func TestHotKeysOfSeveralVisits(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		f.set("a", lock{since: time.Now()})
		for range 3 {
			look(p)
			time.Sleep(2 * time.Minute)
		}
		top := p.Hot(poll.Held, time.Time{}, 1)
		check(t, len(top) == 1 && top[0].Amount > 80 && top[0].Amount < 100, "%v", top) // three half minutes
	})
}

// The moments of a lease do not change with the time that a sample takes.
func TestMomentsAreSteady(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		f.jitter = 7 * time.Millisecond
		begin := time.Now()
		p.Look("")
		var since []time.Time
		f.set("a", lock{since: begin, waits: begin})
		for range 5 {
			step()
			r := p.Row("a")
			_, waited := r.Waiters()
			since = append(since, r.At().Add(-r.HeldFor()), r.At().Add(-waited))
		}
		for _, at := range since {
			check(t, at.Equal(since[0]), "%v", since)
		}
	})
}

// A store that does not answer at all is out, too, and viewers learn of it while the question is still open.
func TestASilentStore(t *testing.T) {
	polling(t, false, func(t *testing.T, f *fake, p *poll.Poller) {
		f.set("a", lock{since: time.Now()})
		look(p)
		silent := make(chan struct{})
		f.fall(silent)
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		next := p.Next()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		select {
		case <-next:
		default:
			t.Error("nobody is told")
		}
		if st := p.Status(); !errors.Is(st.Err, driver.ErrUnavailable) || p.Row("a") == nil {
			t.Errorf("%+v", st)
		}
		close(silent)
		synctest.Wait()
		if st := p.Status(); st.Err != nil {
			t.Errorf("it answers: %+v", st)
		}
		f.fall(nil)
		time.Sleep(time.Minute) // nobody looks any more
		synctest.Wait()
		if st := p.Status(); st.Err != nil {
			t.Errorf("it was not asked: %+v", st)
		}
	})
}

func TestHistoryIsKeptForNobodyToo(t *testing.T) {
	polling(t, true, func(t *testing.T, _ *fake, p *poll.Poller) {
		time.Sleep(time.Hour)
		st := p.Status()
		check(t, st.Tick >= 3500, "%+v", st)
	})
}

// TestHistoriesGiveWay: there is one for each key of interest, until there are too many.
func TestHistoriesGiveWay(t *testing.T) {
	polling(t, true, func(t *testing.T, f *fake, p *poll.Poller) {
		known := 0
		for i := range 600 {
			f.set(fmt.Sprint(i), lock{since: time.Now(), waits: time.Now()})
		}
		step()
		for i := range 600 {
			f.free(fmt.Sprint(i))
		}
		step()
		step()
		for i := range 600 {
			if len(p.Spans(fmt.Sprint(i), time.Time{})) > 0 {
				known++
			}
		}
		check(t, known == 512, "%d keys of the past are known", known)
	})
}
