package waits_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/waits"
)

var check = checktest.That

var serial atomic.Int64

// owner returns a new owner of a process.
func owner(pid int) string {
	return fmt.Sprintf("h/%d/1/t0abcd/%032x", pid, serial.Add(1))
}

func trace(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("00-%032x-%016x-01", n, n)
}

// key is a key that the lease of one request has and for which others wait; each is {pid, trace}.
func key(name string, waited time.Duration, holder [2]int, waiters ...[2]int) driver.LockInfo {
	info := driver.LockInfo{Key: name, Holders: []driver.Holder{{Owner: owner(holder[0]), Token: 7, Trace: trace(holder[1])}}}
	for _, w := range waiters {
		info.Waiters = append(info.Waiters, driver.Waiter{Owner: owner(w[0]), Trace: trace(w[1]), Waited: waited})
	}
	return info
}

// text writes circles as "a>b": the keys in the order of the waits, beginning with the first of the alphabet.
func text(all []waits.Circle) string {
	var texts []string
	for _, c := range all {
		first := 0
		for i, w := range c.Waits {
			if w.Key < c.Waits[first].Key {
				first = i
			}
		}
		var keys []string
		for i := range c.Waits {
			keys = append(keys, c.Waits[(first+i)%len(c.Waits)].Key)
		}
		texts = append(texts, strings.Join(keys, ">"))
	}
	return strings.Join(texts, " ")
}

func TestCircles(t *testing.T) {
	t.Parallel()
	lingering := key("b", 9*time.Second, [2]int{1, 11}, [2]int{2, 22})
	lingering.Holders[0].Lingers = true
	for name, test := range map[string]struct {
		infos            []driver.LockInfo
		deadlocks, hints string
	}{
		"two requests, each holds what the other wants": {
			infos:     []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 22}), key("b", 8*time.Second, [2]int{2, 22}, [2]int{1, 11})},
			deadlocks: "a>b",
		},
		"three": {
			infos: []driver.LockInfo{
				key("a", 2*time.Second, [2]int{1, 11}, [2]int{2, 22}), key("b", 2*time.Second, [2]int{2, 22}, [2]int{3, 33}),
				key("c", 2*time.Second, [2]int{3, 33}, [2]int{1, 11}), key("d", 9*time.Second, [2]int{3, 33}, [2]int{4, 44}),
			},
			deadlocks: "a>c>b",
		},
		"both in one process": {
			infos:     []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 11}, [2]int{1, 22}), key("b", 9*time.Second, [2]int{1, 22}, [2]int{1, 11})},
			deadlocks: "a>b",
		},
		"a request that carries its lease to another process, which waits for it": {
			infos:     []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 22}), key("b", 9*time.Second, [2]int{2, 22}, [2]int{3, 11})},
			deadlocks: "a>b",
		},
		"strangers in two processes": {
			infos: []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 22}), key("b", 9*time.Second, [2]int{2, 33}, [2]int{1, 44})},
			hints: "a>b",
		},
		"no traces": {
			infos: []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 0}, [2]int{2, 0}), key("b", 9*time.Second, [2]int{2, 0}, [2]int{1, 0})},
			hints: "a>b",
		},
		"a lease that lingers may not be its first holder's any more": {
			infos: []driver.LockInfo{key("a", 9*time.Second, [2]int{2, 22}, [2]int{1, 11}), lingering},
			hints: "a>b",
		},
		"waits that are young": {
			infos: []driver.LockInfo{key("a", 4*time.Second, [2]int{1, 0}, [2]int{2, 0}), key("b", 9*time.Second, [2]int{2, 0}, [2]int{1, 0})},
		},
		"requests whose waits are young": {
			infos: []driver.LockInfo{key("a", time.Second/2, [2]int{1, 11}, [2]int{2, 22}), key("b", 9*time.Second, [2]int{2, 22}, [2]int{1, 11})},
		},
		"branches of one trace wait for each other": {
			infos: []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 11})},
		},
		"no circle": {
			infos: []driver.LockInfo{key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 22}, [2]int{3, 33}), key("b", 9*time.Second, [2]int{2, 22}, [2]int{3, 33})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := waits.Build(waits.Pairs(test.infos))
			got := text(g.Deadlocks)
			check(t, got == test.deadlocks, "deadlocks %q, want %q", got, test.deadlocks)
			got = text(g.Hints)
			check(t, got == test.hints, "hints %q, want %q", got, test.hints)
			for _, e := range g.Edges {
				check(t, (!e.InDeadlock || test.deadlocks != "") && (!e.InHint || test.hints != ""), "%+v", e)
			}
		})
	}
}

func TestTheGraphIsOfProcesses(t *testing.T) {
	t.Parallel()
	infos := []driver.LockInfo{
		key("a", 2*time.Second, [2]int{1, 0}, [2]int{2, 0}, [2]int{2, 0}, [2]int{3, 0}),
		key("b", 3*time.Second, [2]int{1, 0}, [2]int{2, 0}),
	}
	g := waits.Build(waits.Pairs(infos))
	var got []string
	for _, e := range g.Edges {
		got = append(got, fmt.Sprint(g.Nodes[e.From].Process.Label, ">", g.Nodes[e.To].Process.Label, e.Keys, e.Longest))
	}
	want := "h pid 2>h pid 1[b a] 3s h pid 3>h pid 1[a] 2s"
	check(t, strings.Join(got, " ") == want, "%q, want %q", got, want)
	for _, n := range g.Nodes {
		want := map[string][2]int{"h pid 1": {0, 4}, "h pid 2": {3, 0}, "h pid 3": {1, 0}}[n.Process.Label]
		check(t, n.Waiters == want[0] && n.Blocked == want[1], "%+v, want %v", n, want)
	}
}

func TestForIsTheYoungestWait(t *testing.T) {
	t.Parallel()
	g := waits.Build(waits.Pairs([]driver.LockInfo{
		key("a", 9*time.Second, [2]int{1, 11}, [2]int{2, 22}), key("b", 3*time.Second, [2]int{2, 22}, [2]int{1, 11}),
	}))
	check(t, len(g.Deadlocks) == 1 && g.Deadlocks[0].For == 3*time.Second, "%+v", g.Deadlocks)
}

func TestALongChain(t *testing.T) {
	t.Parallel()
	var infos []driver.LockInfo
	const n = 1500
	for i := range n {
		infos = append(infos, key(fmt.Sprint("k", i), 9*time.Second, [2]int{i, i + 1}, [2]int{i + 1, i + 2}))
	}
	g := waits.Build(waits.Pairs(infos))
	check(t, len(g.Deadlocks)+len(g.Hints) == 0, "a circle in a chain")
	infos = append(infos, key("last", 9*time.Second, [2]int{n, n + 1}, [2]int{0, 1}))
	g = waits.Build(waits.Pairs(infos))
	check(t, len(g.Deadlocks) == 1 && len(g.Deadlocks[0].Waits) == n+1, "the circle was not found")
}

// Very many keys of one pair of processes took minutes.
func TestOneEdgeOfManyKeys(t *testing.T) {
	t.Parallel()
	all := make([]waits.Wait, 100_000)
	for i := range all {
		all[i].Key = fmt.Sprintf("user:status:%08d", i)
	}
	begin := time.Now()
	g := waits.Build(all)
	check(t, len(g.Edges[0].Keys) == len(all) && time.Since(begin) < 10*time.Second, "%v", time.Since(begin))
}
